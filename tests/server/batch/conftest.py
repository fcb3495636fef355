"""Fixtures of the tests of batches."""

from __future__ import annotations

from pathlib import Path

import pytest

import maglio
from support.batch_lines import (
    answers_of,
    chats,
    write_lines,
)
from support.chat_model import write_chat_model


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chat_model(tmp_path_factory.mktemp("batch") / "model.gguf")


@pytest.fixture(scope="module")
def model(model_file: Path) -> maglio.Model:
    return maglio.load(model_file, n_ctx=512, threads=1)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "requests.jsonl", chats(12))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "results.jsonl"


@pytest.fixture(scope="module")
def uninterrupted(model, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """The answers to ``chats(12)``."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    source = write_lines(folder / "requests.jsonl", chats(12))
    maglio.run_batch(model, source, folder / "results.jsonl")
    return answers_of(folder / "results.jsonl")
