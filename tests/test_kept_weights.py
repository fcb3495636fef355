"""Repacked weights on disk: the same model, mapped; whatever is wrong with them, a load works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import maglio
from maglio import machine
from maglio.engine.native import NativeEngine
from maglio.engine.session import Session
from maglio.gguf import ModelFile
from maglio.kept_weights import KeptWeights
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
