"""Fixtures of the tests of model files."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.gguf_bytes import RawGguf
from support.small_files import Files, sound_files, take_apart


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def sound(folder: Path) -> Files:
    return sound_files(folder)


@pytest.fixture
def raw(sound: Files, folder: Path) -> RawGguf:
    """The llama file, taken apart."""
    return take_apart(sound, folder, "llama")
