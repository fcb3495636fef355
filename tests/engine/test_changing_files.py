"""Model files that change, leave or come in parts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import maglio
from maglio.engine.native import NativeEngine
from maglio.engine.session import Session
from maglio.errors import ModelFileError
from maglio.gguf import ModelFile
from support.gguf_bytes import RawGguf
from support.small_files import Files, complaint, load

UINT16 = 2


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def overwritten(path: Path) -> None:
    size = path.stat().st_size
    path.write_bytes(b"\xff" * size)
    os.utime(path, ns=(0, 0))


@pytest.mark.parametrize("change", [cut_short, overwritten])
def test_a_small_file_is_what_it_was_when_it_was_opened(
    sound: Files, folder: Path, change: Callable[[Path], None]
) -> None:
    path = folder / "changing.gguf"
    path.write_bytes(sound["llama"])
    expected = Session(NativeEngine(ModelFile(path), threads=1)).forward([1])
    file = ModelFile(path)
    change(path)
    assert np.array_equal(Session(NativeEngine(file, threads=1)).forward([1]), expected)
    with pytest.raises(ModelFileError, match=r"changing\.gguf: it was written to while"):
        file.check_unchanged()


def test_a_file_that_is_written_to_while_it_loads_is_refused(
    sound: Files, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "changing.gguf"
    path.write_bytes(sound["with a vocabulary"])

    def changing(file: ModelFile, **options: int) -> NativeEngine:
        engine = NativeEngine(file, threads=1)
        overwritten(path)
        return engine

    monkeypatch.setattr("maglio.native_model.NativeEngine", changing)
    with pytest.raises(ModelFileError, match="wait until it is complete"):
        maglio.load(path)


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


def test_a_part_of_a_split_model_says_which_it_is(raw: RawGguf, folder: Path) -> None:
    raw.set("split.no", 1, UINT16)
    raw.set("split.count", 3, UINT16)
    message = complaint(raw.to_bytes(), folder)
    assert "part 2 of 3 of a split model" in message
    assert "llama-gguf-split --merge" in message


def test_a_split_model_of_one_part_is_a_model(raw: RawGguf, folder: Path) -> None:
    raw.set("split.no", 0, UINT16)
    raw.set("split.count", 1, UINT16)
    load(raw.to_bytes(), folder)
