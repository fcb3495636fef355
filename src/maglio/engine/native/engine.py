"""The native engine and its sessions, behind the seam of :mod:`maglio.engine.base`.

Arguments are checked here; the arithmetic is in the C++ core (``csrc/engine/engine.h``).
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from maglio import _core, machine
from maglio.checks import check_int
from maglio.engine.base import Logits, Segment
from maglio.engine.native.weights import load_model
from maglio.errors import ContextFullError, OutOfMemoryError
from maglio.gguf import ModelFile
from maglio.tokens import token_array

_MAX_THREADS = 256


class NativeEngine:
    """Weights of one GGUF file, and the threads that run it.

    Args:
        file: the open model file.
        n_ctx: positions of a session; at most what the model was trained for.
        threads: number of threads; physical cores when ``None``.

    Raises:
        ModelFileError: the file cannot be used: see :func:`~.weights.load_model`.
        InvalidArgumentError: ``n_ctx`` or ``threads`` is out of range, or ``MAGLIO_ISA`` unknown.
        OutOfMemoryError: the weights do not fit in memory.
    """

    name = "native"
    exactness: Literal["bitwise"] = "bitwise"
    can_rewind = True
    max_rows: int = _core.Engine.MAX_ROWS

    def __init__(self, file: ModelFile, *, n_ctx: int = 4096, threads: int | None = None) -> None:
        threads = machine.physical_cores() if threads is None else threads
        check_int("n_ctx", n_ctx, 1, 2**30)
        check_int("threads", threads, 1, _MAX_THREADS)
        # Repacking never doubles a file, and most formats hardly grow.
        _require_memory(file.size, f"the weights of {file.path}")
        isa = machine.choose_isa()
        self.path: Path = file.path
        try:
            self._model = load_model(file, threads=threads)
        except MemoryError as error:
            raise OutOfMemoryError(
                f"no memory for the weights of {file.path}; use a smaller or more strongly "
                "quantized model"
            ) from error
        self._core = _core.Engine(self._model, isa, threads)
        architecture = file.text("general.architecture")
        self._n_ctx = min(n_ctx, file.integer(f"{architecture}.context_length", n_ctx))
        self._n_vocab: int = self._model.spec.n_vocab
        self._cache_budget = machine.available_memory()
        self._cache_bytes = 0

    @property
    def n_vocab(self) -> int:
        """Number of token ids; valid ids are ``0 .. n_vocab - 1``."""
        return self._n_vocab

    @property
    def n_ctx(self) -> int:
        """Context length of new sessions, in tokens."""
        return self._n_ctx

    @property
    def isa(self) -> str:
        """Instruction set in use."""
        return str(self._core.isa)

    @property
    def threads(self) -> int:
        """Number of threads in use."""
        return int(self._core.threads)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the repacked weights."""
        return int(self._model.weight_bytes)

    def new_cache(self) -> NativeCache:
        """Start an empty sequence.

        Raises:
            OutOfMemoryError: the caches of all open sequences would not fit in memory.
        """
        needed = int(_core.KvCache.bytes_needed(self._model.spec, self._n_ctx))
        total = self._cache_bytes + needed
        if self._cache_budget is not None and total > self._cache_budget:
            raise OutOfMemoryError(
                f"a sequence of {self._n_ctx} tokens needs {_megabytes(needed)}, and with those "
                f"already open that is {_megabytes(total)} of the "
                f"{_megabytes(self._cache_budget)} available; close one or load the model "
                "with a smaller n_ctx"
            )
        cache = NativeCache(_core.KvCache(self._model.spec, self._n_ctx))
        self._cache_bytes = total
        weakref.finalize(cache, self._release, needed)
        return cache

    def _release(self, cache_bytes: int) -> None:
        self._cache_bytes -= cache_bytes

    def forward(self, batch: Sequence[Segment]) -> list[Logits]:
        """See :meth:`maglio.engine.base.Engine.forward`."""
        rows = []
        for cache, tokens, n_logits in batch:
            assert isinstance(cache, NativeCache)
            if len(tokens) > self._n_ctx - cache.length:
                raise ContextFullError(
                    f"{len(tokens)} tokens do not fit: {cache.length} of the context's "
                    f"{self._n_ctx} positions are in use"
                )
            ids = token_array(tokens, self._n_vocab)
            rows.append(self._core.forward(cache.core, ids, n_logits))
        return rows


class NativeCache:
    """One sequence."""

    floor = 0

    def __init__(self, core: _core.KvCache) -> None:
        self.core = core

    @property
    def length(self) -> int:
        """Positions held."""
        return int(self.core.length)

    def truncate(self, length: int) -> int:
        """See :meth:`maglio.engine.base.Cache.truncate`."""
        check_int("length", length, 0, self.length)
        self.core.truncate(length)
        return length

    def fork(self, length: int) -> NativeCache:
        """See :meth:`maglio.engine.base.Cache.fork`."""
        raise NotImplementedError


def _require_memory(needed: int, what: str) -> None:
    available = machine.available_memory()
    if available is not None and needed > available:
        raise OutOfMemoryError(
            f"{what} need about {_megabytes(needed)}, and {_megabytes(available)} are available; "
            "use a smaller or more strongly quantized model"
        )


def _megabytes(n: int) -> str:
    return f"{n / 1e6:,.0f} MB"
