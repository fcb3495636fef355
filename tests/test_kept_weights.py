"""Repacked weights on disk: the same model, mapped; whatever is wrong with them, a load works."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import maglio
from maglio import _core, kept_weights, machine
from maglio.cli.app import app
from maglio.engine.native import NativeEngine
from maglio.engine.session import Session
from maglio.gguf import ModelFile
from maglio.kept_weights import KeptWeights, kept_files
from support.gguf_bytes import RawGguf
from support.models import FAMILIES, FORMATS
from support.tiny import ISAS, TinyModels, load_on


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def path(tiny: TinyModels, tmp_path: Path) -> Path:
    raw = RawGguf.read(tiny.path("llama", "Q4_K"))
    raw.set("general.name", "a name")
    (tmp_path / "model.gguf").write_bytes(raw.to_bytes())
    return tmp_path / "model.gguf"


def load(path: Path, **options: int) -> NativeEngine:
    return NativeEngine(ModelFile(path), keep_weights=True, **{"threads": 1, **options})


def is_mapped(engine: NativeEngine) -> bool:
    return engine._model.is_mapped


def logits(engine: NativeEngine) -> np.ndarray:
    return Session(engine).forward([1, 2, 3])


@pytest.fixture
def kept(path: Path) -> Path:
    """The file of weights that a load has left."""
    load(path)
    return KeptWeights(path).path


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("fmt", ["F32", "Q4_K"])
def test_a_mapped_model_says_the_same_to_the_bit(tiny: TinyModels, family: str, fmt: str) -> None:
    path = tiny.path(family, fmt)
    first, second = load(path), load(path)
    assert not is_mapped(first)
    assert is_mapped(second)
    assert second.weight_bytes == first.weight_bytes
    expected = logits(tiny.engine(family, fmt))
    assert np.array_equal(logits(first), expected)
    assert np.array_equal(logits(second), expected)


@pytest.mark.parametrize("fmt", FORMATS)
def test_tiles_do_not_depend_on_threads_or_the_instruction_set(
    tiny: TinyModels, tmp_path: Path, fmt: str
) -> None:
    path = tiny.path("llama", fmt)
    files = set()
    for isa in ISAS:
        for threads in (1, 3):
            load_on(isa, path, threads=threads, keep_weights=True)
            kept = KeptWeights(path).path
            files.add(kept.read_bytes())
            kept.unlink()
    assert len(files) == 1


def test_files_and_folder_are_for_their_owner_alone(kept: Path) -> None:
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    assert os.listdir(kept.parent) == [kept.name]


def test_without_being_asked_nothing_is_kept(path: Path, cache_folder: Path) -> None:
    NativeEngine(ModelFile(path), threads=1)
    assert not (cache_folder / "maglio" / "weights").exists()


def _touched(model: Path, kept: Path) -> None:
    os.utime(model, ns=(1, 1))


def _other_metadata(model: Path, kept: Path) -> None:
    status = model.stat()
    model.write_bytes(model.read_bytes().replace(b"a name", b"A name", 1))
    os.utime(model, ns=(status.st_atime_ns, status.st_mtime_ns))


def _grown(model: Path, kept: Path) -> None:
    status = model.stat()
    model.write_bytes(model.read_bytes() + b"\0")
    os.utime(model, ns=(status.st_atime_ns, status.st_mtime_ns))


def _change(change: Callable[[bytes], bytes]) -> Callable[[Path, Path], None]:
    return lambda model, kept: (kept.write_bytes(change(kept.read_bytes())), None)[1]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_touched, "the model file has changed"),
        (_grown, "the model file has changed"),
        (_other_metadata, "the model file has changed"),
        (_change(lambda data: b""), "not a file of weights"),
        (_change(lambda data: data[:20]), "not a file of weights"),
        (_change(lambda data: b"x" + data[1:]), "not a file of weights"),
        (_change(lambda data: data[:8] + b"\2" + data[9:]), "has changed"),
        (_change(lambda data: data[:-1]), "bytes and should have"),
        (_change(lambda data: data + b"\0"), "bytes and should have"),
        (lambda model, kept: kept.chmod(0o666), "others may write to it"),
    ],
)
def test_what_does_not_fit_is_said_once_and_written_anew(
    path: Path, kept: Path, change: Callable[[Path, Path], None], says: str
) -> None:
    change(path, kept)
    with pytest.warns(RuntimeWarning, match=says) as caught:
        assert not is_mapped(load(path))
    assert len(caught) == 1
    assert str(kept) in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert is_mapped(load(path))
    assert kept.stat().st_mode & 0o777 == 0o600


def test_what_cannot_be_written_is_said_and_the_model_works(path: Path, kept: Path) -> None:
    kept.unlink()
    kept.mkdir()
    with pytest.warns(RuntimeWarning, match="folder") as caught:
        assert len(logits(load(path))) > 0
    assert "are not used" in str(caught[0].message)
    assert "the model is read each time" in str(caught[1].message)


def test_a_full_disk_is_not_filled_to_the_last_byte(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, 10**6))
    with pytest.warns(RuntimeWarning, match="free on the disk; the model is read each time"):
        load(path)
    assert not KeptWeights(path).path.exists()


def models_of_one_size(path: Path, count: int) -> list[Path]:
    return [Path(shutil.copy(path, path.with_name(f"model-{n}.gguf"))) for n in range(count)]


def kept_names() -> list[str]:
    return [file.path.name.rpartition("-")[0] for file in kept_files()]


def at_most(files: float, of: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many files of the size of one may be kept."""
    size = KeptWeights(of).path.stat().st_size
    monkeypatch.setattr(kept_weights, "MOST_BYTES", int(files * size))


def test_weights_that_were_not_used_for_longest_go_first(
    path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.unlink()
    a, b, c, d = models_of_one_size(path, 4)
    for model in (a, b, c):
        load(model)
    at_most(3, a, monkeypatch)
    load(a)  # used again, and let go
    load(d)
    assert kept_names() == ["model-3", "model-0", "model-2"]


def test_bytes_in_all_stay_below_the_most(
    path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_most(2.9, path, monkeypatch)
    for model in models_of_one_size(path, 6):
        load(model)
        assert sum(file.bytes for file in kept_files()) <= kept_weights.MOST_BYTES
    assert kept_names() == ["model-5", "model-4"]


def test_weights_that_are_mapped_here_are_not_removed(
    path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, c = models_of_one_size(path, 3)
    kept.unlink()
    load(a)
    load(b)
    at_most(2, a, monkeypatch)
    mapped = load(a)
    os.utime(KeptWeights(a).path, ns=(1, 1))
    load(c)
    assert is_mapped(mapped)
    assert kept_names() == ["model-2", "model-0"]
    also = load(c)
    with pytest.warns(RuntimeWarning, match="are kept at most; the model is read each time"):
        load(b)
    assert kept_names() == ["model-2", "model-0"]
    del mapped, also
    load(b)
    assert kept_names() == ["model-1", "model-2"]


def test_weights_that_another_thread_is_mapping_are_not_removed(
    path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (other,) = models_of_one_size(path, 1)
    at_most(1, path, monkeypatch)
    mapping = _core.ModelLoad.map
    warned: list[str] = []

    def load_another() -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            load(other)
        warned.extend(str(each.message) for each in caught)

    def mapped_meanwhile(loading: _core.ModelLoad, file: int) -> _core.Model:
        model = mapping(loading, file)
        if not threads:
            threads.append(threading.Thread(target=load_another))
            threads[0].start()
            threads[0].join(1.0)  # it gets as far as it can
        return model

    threads: list[threading.Thread] = []
    monkeypatch.setattr(_core.ModelLoad, "map", mapped_meanwhile)
    engine = load(path)
    threads[0].join()
    assert is_mapped(engine)
    assert [file.path for file in kept_files()] == [kept]
    assert "are kept at most" in warned[0]


def test_a_model_larger_than_all_that_may_be_kept_removes_nothing(
    path: Path, kept: Path, tiny: TinyModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_most(1, path, monkeypatch)
    larger = tiny.path("llama", "F32")
    with pytest.warns(RuntimeWarning, match="are kept at most"):
        load(larger)
    assert [file.path for file in kept_files()] == [kept]


def test_a_model_replaces_its_own_old_weights_alone(
    path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (other,) = models_of_one_size(path, 1)
    load(other)
    at_most(2, other, monkeypatch)
    os.utime(path, ns=(1, 1))
    with pytest.warns(RuntimeWarning, match="has changed"):
        load(path)
    assert len(kept_files()) == 2


def test_a_full_disk_costs_other_models_their_weights(
    path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = kept.stat().st_size
    room = (1 << 30) + 2 * size

    def usage(_: Path) -> object:
        return shutil._ntuple_diskusage(1, 1, room - sum(file.bytes for file in kept_files()))

    monkeypatch.setattr("shutil.disk_usage", usage)
    for model in models_of_one_size(path, 3):
        load(model)
        assert usage(model)[2] >= 1 << 30
    assert kept_names() == ["model-2", "model-1"]


def test_what_is_no_file_of_weights_is_left_alone(
    path: Path, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").write_bytes(bytes(10**6))
    (kept.parent / "link.weights").symlink_to(tmp_path / "mine")
    (kept.parent / "folder.weights").mkdir()
    (kept.parent / "notes.txt").write_bytes(bytes(10**6))
    at_most(1, path, monkeypatch)
    (other,) = models_of_one_size(path, 1)
    load(other)
    assert kept_names() == ["model-0"]
    assert len(os.listdir(kept.parent)) == 4


def test_the_command_line_says_where_weights_are_kept(kept: Path) -> None:
    said = CliRunner().invoke(app, ["models"]).stdout
    assert str(kept.parent) in "".join(said.split())
    assert "1 file, " in said
    assert "of at most 100.00 GB" in " ".join(said.split())
    document = json.loads(CliRunner().invoke(app, ["models", "--json"]).stdout)["kept_weights"]
    assert document["folder"] == str(kept.parent)
    assert document["files"] == [{"path": str(kept), "bytes": kept.stat().st_size}]


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(position=st.integers(0, 10**6), byte=st.integers(0, 255))
def test_damaged_weights_are_never_an_error(
    path: Path, kept: Path, position: int, byte: int
) -> None:
    """A header that differs is noticed; damaged tiles are like damaged data of the model itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        load(path)  # whole again
        with kept.open("r+b") as file:
            file.seek(position % (kept.stat().st_size + 4096))
            file.write(bytes([byte]))
        engine = load(path)
    assert len(logits(engine)) > 0


def test_two_models_of_one_name_do_not_share_a_file(path: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Path(shutil.copy(path, tmp_path / "other" / path.name))
    assert KeptWeights(path).path != KeptWeights(other).path
    (tmp_path / "link.gguf").symlink_to(path)
    assert KeptWeights(path).path == KeptWeights(tmp_path / "link.gguf").path


def test_a_mapped_model_outlives_a_new_file(path: Path, kept: Path) -> None:
    mapped = load(path)
    expected = logits(mapped)
    os.utime(path, ns=(1, 1))
    with pytest.warns(RuntimeWarning):
        load(path)
    assert np.array_equal(logits(mapped), expected)
    kept.unlink()
    assert np.array_equal(logits(mapped), expected)


def test_mapped_weights_need_no_memory_of_their_own(
    path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "available_memory", lambda: 300_000)
    with pytest.raises(maglio.OutOfMemoryError, match=r"need .* MB and a short cache .* MB, and"):
        NativeEngine(ModelFile(path), threads=1)
    assert is_mapped(load(path, n_ctx=64))


def test_load_takes_the_option(path: Path) -> None:
    script = f"""if True:
        import maglio
        reports = []
        for _ in range(2):
            model = maglio.load({str(maglio.default_model.default_model_path())!r}, cache=True,
                on_load=lambda done, total: reports.append((done, total)))
        assert model.engine._model.is_mapped
        assert all(0 <= done <= total for done, total in reports)
        assert sum(done == total for done, total in reports) >= 2, "read, and written"
    """
    subprocess.run([sys.executable, "-c", script], check=True)
