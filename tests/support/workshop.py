"""Variants of the tiny models: files with a tensor or a key changed, and how they compare."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from maglio.engine.native import NativeEngine
from maglio.engine.session import Session
from maglio.errors import ModelFileError
from maglio.gguf import ModelFile
from support.gguf_bytes import RawGguf, RawTensor
from support.goldens import log_softmax
from support.reference import Reference
from support.tiny import TinyModels, random_tokens

N_TOKENS = 100
LIMIT = 2e-6
"""Mean KL with float weights, as in test_reference."""
F32 = 0


class Workshop:
    """Makes variants of the tiny models."""

    def __init__(self, tiny: TinyModels, folder: Path) -> None:
        self._tiny = tiny
        self._folder = folder

    def raw(self, family: str) -> RawGguf:
        return RawGguf.read(self._tiny.path(family, "F32"))

    def write(self, raw: RawGguf) -> Path:
        path = self._folder / "model.gguf"
        path.write_bytes(raw.to_bytes())
        return path

    def engine(self, raw: RawGguf, **options: int) -> NativeEngine:
        return NativeEngine(ModelFile(self.write(raw)), **options)

    def distance(self, raw: RawGguf, change: Callable[[Reference], object] | None = None) -> float:
        """Mean KL from the reference, of which something may be changed first."""
        engine = self.engine(raw)
        reference = Reference(self.write(raw))
        if change is not None:
            change(reference)
        tokens = random_tokens(engine.n_vocab, N_TOKENS, 1)
        ours = log_softmax(Session(engine).forward(tokens))
        theirs = log_softmax(reference.logits(tokens))
        return float((np.exp(theirs) * (theirs - ours)).sum(axis=1).mean())

    def complaint(self, raw: RawGguf) -> str:
        with pytest.raises(ModelFileError) as caught:
            self.engine(raw)
        assert "model.gguf" in str(caught.value)
        return str(caught.value)


def add_vector(raw: RawGguf, name: str, size: int, seed: int) -> None:
    values = 0.5 * np.random.default_rng(seed).standard_normal(size).astype("<f4")
    raw.tensors[name.encode()] = RawTensor([size], F32, values.tobytes())


def add_matrix(raw: RawGguf, name: str, dims: list[int], seed: int) -> None:
    """Add a matrix, or several of equal shape; ``dims`` has the row length first."""
    shape = dims[::-1]
    values = np.random.default_rng(seed).standard_normal(shape) / np.sqrt(dims[0])
    raw.tensors[name.encode()] = RawTensor(dims, F32, values.astype("<f4").tobytes())


def rows_of(raw: RawGguf, name: str) -> int:
    return raw.tensors[name.encode()].dims[1]
