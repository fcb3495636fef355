"""A tiny model that has a vocabulary, so that text can go in and come out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from support.gguf_bytes import RawGguf
from support.models import Shape, write_model


def write_vocabulary_model(path: Path, vocabulary: Mapping[str, object], seed: int = 1) -> Path:
    """Write a random llama model with the tokenizer that ``vocabulary``'s metadata describes."""
    n_vocab = len(vocabulary["tokenizer.ggml.tokens"])
    write_model(path, "llama", Shape(1, 32, 2, 1, 16, 32, n_vocab, 64, 0, True), "F16", seed)
    raw = RawGguf.read(path)
    for key, value in vocabulary.items():
        raw.set(key, value)
    path.write_bytes(raw.to_bytes())
    return path
