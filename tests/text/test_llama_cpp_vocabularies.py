"""The vocabularies that llama.cpp tests itself with, if ``MAGLIO_LLAMA_CPP`` names its sources."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from maglio.errors import ModelFileError
from maglio.gguf import ModelFile
from maglio.text import from_metadata

SOURCES = os.environ.get("MAGLIO_LLAMA_CPP", "")
SUPPORTED = (
    "command-r", "deepseek-coder", "deepseek-llm", "falcon", "gemma-4", "gpt-2", "llama-bpe",
    "llama-spm", "mpt", "phi-3", "qwen2", "qwen35", "refact", "starcoder",
)  # fmt: skip
REFUSED = ("bert-bge",)

pytestmark = pytest.mark.skipif(not SOURCES, reason="MAGLIO_LLAMA_CPP names no sources")


def vocabulary(name: str) -> Path:
    return Path(SOURCES) / "models" / f"ggml-vocab-{name}.gguf"


@pytest.mark.parametrize("name", SUPPORTED)
def test_token_ids_are_those_llama_cpp_expects(name: str) -> None:
    tokenizer = from_metadata(ModelFile(vocabulary(name)).metadata)
    texts = Path(f"{vocabulary(name)}.inp").read_bytes().split(b"\n__ggml_vocab_test__\n")
    if not texts[-1]:  # most files end in a separator
        texts.pop()
    lines = Path(f"{vocabulary(name)}.out").read_text().splitlines()
    expected = [[int(token) for token in line.split()] for line in lines]
    assert [tokenizer.encode(text, add_special=False) for text in texts] == expected


@pytest.mark.parametrize("name", REFUSED)
def test_vocabularies_of_other_rules_are_refused_by_name(name: str) -> None:
    with pytest.raises(ModelFileError, match="supported are"):
        from_metadata(ModelFile(vocabulary(name)).metadata)
