"""Small sound files by family, to be taken apart and damaged, and what loading one should say.

Boundary: bytes of files in, engines or messages out; the fixtures over it are in
``tests/engine/conftest.py``.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from maglio.engine.native import NativeEngine
from maglio.engine.session import Session
from maglio.errors import ModelFileError
from maglio.gguf import ModelFile
from support.gguf_bytes import RawGguf
from support.models import FAMILIES, Shape, write_model
from support.spm_vocabulary import SPM
from support.vocabulary_model import write_vocabulary_model

SMALL = Shape(1, 32, 2, 1, 16, 32, 20, 64, 0, False)
SMALL_SHAPES = {
    "gemma2": Shape(1, 32, 2, 1, 16, 32, 20, 64, 8, True),
    "gemma3": Shape(1, 32, 2, 1, 16, 32, 20, 64, 8, True),
    "qwen3moe": Shape(1, 32, 2, 1, 16, 32, 20, 64, 0, False, 3, 2),
    "gpt-oss": Shape(1, 32, 2, 1, 16, 32, 20, 64, 8, False, 3, 2),
    "qwen2moe": Shape(1, 32, 2, 1, 16, 32, 20, 64, 0, False, 3, 2, 32),
    "granitemoe": Shape(1, 32, 2, 1, 16, 32, 20, 64, 0, True, 3, 2, 32),
    "qwen35": Shape(2, 32, 2, 1, 16, 32, 20, 64, 0, False, 0, 0, 0, 1, 2, 16, 4),
    "lfm2": Shape(2, 32, 2, 1, 16, 32, 20, 64, 0, False, n_taps=3),
    "gemma4": Shape(6, 32, 4, 1, 16, 32, 20, 64, 8, True, n_per_layer=32, n_shared=3),
    "qwen3next": Shape(2, 32, 2, 1, 16, 32, 20, 64, 0, False, 3, 2, 32, 2, 4, 16, 4),
    "qwen35moe": Shape(2, 32, 2, 1, 16, 32, 20, 64, 0, False, 3, 2, 32, 1, 2, 16, 4),
    "lfm2moe": Shape(2, 32, 2, 1, 16, 32, 20, 64, 0, False, 3, 2, n_taps=3),
}


class Files(dict[str, bytes]):
    """Contents by name, with a short repr for failing examples."""

    def __repr__(self) -> str:
        return "files"


def sound_files(folder: Path) -> Files:
    """Make small files that load, one per family, and one with a vocabulary."""
    files = Files()
    for family in FAMILIES:
        shape = SMALL_SHAPES.get(family, SMALL)
        write_model(folder / "sound.gguf", family, shape, "Q4_0", 1)
        files[family] = (folder / "sound.gguf").read_bytes()
    write_vocabulary_model(folder / "sound.gguf", SPM)
    files["with a vocabulary"] = (folder / "sound.gguf").read_bytes()
    return files


def take_apart(sound: Files, folder: Path, name: str) -> RawGguf:
    path = folder / "apart.gguf"
    path.write_bytes(sound[name])
    return RawGguf.read(path)


@contextmanager
def little_memory() -> Iterator[None]:
    """Let nothing large be allocated: beyond 256 MB there is a MemoryError."""
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (in_use + (256 << 20), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def load(data: bytes, folder: Path) -> NativeEngine:
    path = folder / "model.gguf"
    path.write_bytes(data)
    with little_memory():
        return NativeEngine(ModelFile(path), threads=1)


def complaint(data: bytes, folder: Path) -> str:
    """Return the message of the error, which must name the file."""
    with pytest.raises(ModelFileError) as caught:
        load(data, folder)
    assert "model.gguf" in str(caught.value)
    return str(caught.value)


def survives(data: bytes, folder: Path) -> None:
    """Loading either works, and then so does a forward, or raises the typed error."""
    try:
        engine = load(data, folder)
    except ModelFileError:
        return
    with little_memory():
        Session(engine).forward([1])
