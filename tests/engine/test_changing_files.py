"""Model files that change or leave while they are read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import maglio
from maglio.engine.native import NativeEngine
from maglio.errors import ModelFileError
from maglio.gguf import ModelFile
from support.gguf_bytes import RawGguf, RawTensor
from support.small_files import Files

F32 = 0


def write_large(raw: RawGguf, path: Path, size: int) -> Path:
    """A model with an embedding of ``size`` bytes, which are a hole in the file."""
    raw.tensors.pop(b"output.weight", None)
    name = b"token_embd.weight"
    raw.tensors.pop(name)
    raw.tensors[name] = RawTensor([32, size // 128], F32, b"")
    data = raw.to_bytes()
    path.write_bytes(data)
    os.truncate(path, len(data) + size)
    return path


def peak_memory() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise AssertionError


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def overwritten(path: Path) -> None:
    size = path.stat().st_size
    path.write_bytes(b"\xff" * size)
    os.utime(path, ns=(0, 0))


@pytest.mark.parametrize("change", [cut_short, overwritten])
def test_a_file_that_changes_after_it_was_opened_is_refused(
    sound: Files, folder: Path, change: Callable[[Path], None]
) -> None:
    path = folder / "changing.gguf"
    path.write_bytes(sound["llama"])
    file = ModelFile(path)
    change(path)
    with pytest.raises(ModelFileError, match=r"changing\.gguf: it .* wait until it is complete"):
        NativeEngine(file, threads=1)
    with pytest.raises(ModelFileError, match=r"changing\.gguf: it was written to while"):
        file.check_unchanged()


def test_a_large_file_may_be_cut_short_at_any_moment(raw: RawGguf, folder: Path) -> None:
    path = write_large(raw, folder / "large.gguf", 128 << 20)

    def cut(done: int, total: int) -> None:
        reports.append(total)
        os.truncate(path, 64 << 20)

    reports: list[int] = []
    file = ModelFile(path)
    with pytest.raises(ModelFileError, match=r"large\.gguf: it .* while it was read"):
        NativeEngine(file, threads=2, on_load=cut)
    assert reports[0] > 128 << 20


def test_loading_takes_no_more_memory_than_the_weights_and_an_eighth(
    raw: RawGguf, folder: Path
) -> None:
    path = write_large(raw, folder / "large.gguf", 128 << 20)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is in use
    before = peak_memory()
    engine = NativeEngine(ModelFile(path), threads=2)
    assert engine.weight_bytes >= 128 << 20
    assert peak_memory() - before < 1.125 * engine.weight_bytes


def test_an_error_in_on_load_ends_loading(raw: RawGguf, folder: Path) -> None:
    def fail(done: int, total: int) -> None:
        raise KeyError("stop")

    path = write_large(raw, folder / "large.gguf", 1 << 20)
    with pytest.raises(KeyError, match="stop"):
        NativeEngine(ModelFile(path), threads=2, on_load=fail)


def test_a_file_that_is_written_to_while_it_loads_is_refused(sound: Files, folder: Path) -> None:
    path = folder / "changing.gguf"
    path.write_bytes(sound["with a vocabulary"])
    with pytest.raises(ModelFileError, match="wait until it is complete"):
        maglio.load(path, on_load=lambda done, total: overwritten(path))


def test_a_file_that_was_deleted_or_replaced_is_still_what_it_was(
    sound: Files, folder: Path
) -> None:
    path = folder / "leaving.gguf"
    path.write_bytes(sound["llama"])
    file = ModelFile(path)
    path.unlink()
    file.check_unchanged()
    path.write_bytes(b"another")
    (folder / "new").write_bytes(b"another")
    os.replace(folder / "new", path)
    file.check_unchanged()


def test_a_model_without_its_file_still_has_a_history_on_disk(sound: Files, folder: Path) -> None:
    path = folder / "leaving.gguf"
    path.write_bytes(sound["with a vocabulary"])
    model = maglio.load(path)
    before = model.history_file.path
    path.unlink()
    assert model.history_file.path == before
