"""One model, named in one way."""

from __future__ import annotations

from pathlib import Path

import pytest

from maglio.cli.model_choice import ModelChoice
from maglio.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("choice", "argument"),
    [
        (ModelChoice(model=Path("a.gguf"), hf_repo="a/b"), None),
        (ModelChoice(hf_repo="a/b"), Path("a.gguf")),
        (ModelChoice(model=Path("a.gguf")), Path("a.gguf")),
    ],
)
def test_a_model_that_is_given_twice_is_refused(choice, argument):
    with pytest.raises(InvalidArgumentError, match="give the model once"):
        choice.find(argument)


def test_a_file_of_no_repository_is_refused():
    with pytest.raises(InvalidArgumentError, match="--hf-file needs --hf-repo"):
        ModelChoice(hf_file="a.gguf").find()


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (ModelChoice(), ()),
        (ModelChoice(model=Path("folder/a.gguf")), ()),
        (ModelChoice(model=Path("ollama:qwen3")), ("qwen3:latest", "qwen3")),
        (ModelChoice(model=Path("ollama:me/qwen3:4b")), ("me/qwen3:4b",)),
        (ModelChoice(hf_repo="a/b:Q8_0"), ("a/b:Q8_0",)),
        (ModelChoice(hf_repo="a/b:Q8_0", hf_file="f/c.gguf"), ("a/b/f/c.gguf",)),
    ],
)
def test_a_model_is_called_what_its_user_calls_it(choice, names):
    assert choice.names() == names
