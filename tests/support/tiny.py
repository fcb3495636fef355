"""Tiny models on disk and loaded, each made once: one model and many tests.

Boundary: files come from :mod:`support.models`; engines are the package's own.
"""

from __future__ import annotations

import functools
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maglio import _core
from maglio.engine.native import NativeEngine
from maglio.gguf import ModelFile
from support.models import Family, Shape, tiny_shape, write_model

ISAS: tuple[str, ...] = tuple(_core.isa_names())
"""Instruction sets of this machine, best first."""

SEED = 11

_CODED = ("F16", "Q5_0", "Q8_0", "Q6_K")


def some_cache(fmt: str) -> str:
    """Return a precision of the KV cache for tests of weights in ``fmt``.

    Caches and weights meet in no kernel, so half of the formats go with each precision.
    """
    return "q8_0" if fmt in _CODED else "f16"


class TinyModels:
    """Random models of every family and format in one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = itertools.count()
        self.path = functools.cache(self._write)
        self.engine = functools.cache(self._load)

    def _write(self, family: Family, fmt: str, shape: Shape | None = None) -> Path:
        path = self._directory / f"{next(self._numbers)}.gguf"
        write_model(path, family, shape or tiny_shape(family, fmt), fmt, SEED)
        return path

    def _load(
        self,
        family: Family,
        fmt: str,
        *,
        isa: str = "",
        threads: int = 1,
        kv_cache: str = "f16",
        shape: Shape | None = None,
    ) -> NativeEngine:
        path = self.path(family, fmt, shape)
        return load_on(isa, path, threads=threads, kv_cache=kv_cache)


def load_on(isa: str, path: Path, **options: Any) -> NativeEngine:
    """Load a model for one instruction set; the best one when ``isa`` is empty."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MAGLIO_ISA", isa)
        return NativeEngine(ModelFile(path), **options)


def random_tokens(n_vocab: int, n: int, seed: int = 0) -> list[int]:
    """Return ``n`` token ids, the same for the same arguments."""
    return np.random.default_rng(seed).integers(0, n_vocab, n).tolist()
