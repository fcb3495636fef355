"""The native engine and its sessions, behind the seam of :mod:`maglio.engine.base`.

Arguments are checked here; the arithmetic is in the C++ core (``csrc/engine/engine.h``).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from maglio import _core, machine
from maglio.checks import check_int
from maglio.engine.base import Logits
from maglio.engine.native.weights import load_model
from maglio.errors import ContextFullError, InvalidArgumentError, OutOfMemoryError
from maglio.gguf import ModelFile
from maglio.tokens import Tokens, token_array

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

    @property
    def session_bytes(self) -> int:
        """Bytes that the cache of a full session takes."""
        return int(_core.KvCache.bytes_needed(self._model.spec, self._n_ctx))

    def session(self) -> NativeSession:
        """Start an empty sequence.

        Raises:
            OutOfMemoryError: the caches of all open sessions would not fit in memory.
        """
        needed = self.session_bytes
        total = self._cache_bytes + needed
        if self._cache_budget is not None and total > self._cache_budget:
            raise OutOfMemoryError(
                f"a session of {self._n_ctx} tokens needs {_megabytes(needed)}, and with the "
                f"sessions already open that is {_megabytes(total)} of the "
                f"{_megabytes(self._cache_budget)} available; close a session or load the model "
                "with a smaller n_ctx"
            )
        session = NativeSession(self._core, self._model, self._n_ctx)
        self._cache_bytes = total
        weakref.finalize(session, self._release, needed)
        return session

    def _release(self, cache_bytes: int) -> None:
        self._cache_bytes -= cache_bytes


class NativeSession:
    """One sequence: its KV cache, and the forward pass over it. Not for several threads at once."""

    can_rewind = True

    def __init__(self, core: _core.Engine, model: _core.Model, n_ctx: int) -> None:
        self._core = core
        self._n_vocab: int = model.spec.n_vocab
        self.on_prefill: Callable[[int], None] | None = None
        try:
            self._cache = _core.KvCache(model.spec, n_ctx)
        except MemoryError as error:
            raise OutOfMemoryError(
                f"no memory for a session of {n_ctx} tokens; load the model with a smaller n_ctx"
            ) from error

    @property
    def length(self) -> int:
        """Number of positions in the cache."""
        return int(self._cache.length)

    @property
    def n_ctx(self) -> int:
        """Number of positions the cache can hold."""
        return int(self._cache.n_ctx)

    def prefill(self, tokens: Tokens) -> Logits:
        """Append ``tokens`` (at least one) and return the last row, float32 ``(vocab,)``.

        Works in chunks; :attr:`on_prefill`, if set, is called after each with the number of
        tokens done. An exception in between (Ctrl-C too) leaves whole chunks in the cache.
        """
        ids = self._checked(tokens)
        step = _core.Engine.MAX_ROWS
        for start in range(0, len(ids), step):
            chunk = ids[start : start + step]
            is_last = start + step >= len(ids)
            rows: Logits = self._core.forward(self._cache, chunk, int(is_last))
            if self.on_prefill is not None:
                self.on_prefill(start + len(chunk))
        last: Logits = rows[0]
        return last

    def forward(self, tokens: Tokens) -> Logits:
        """Append ``tokens`` and return one row each, float32 ``(len(tokens), vocab)``."""
        ids = self._checked(tokens)
        step = _core.Engine.MAX_ROWS
        parts = [
            self._core.forward(self._cache, chunk, len(chunk))
            for chunk in (ids[start : start + step] for start in range(0, len(ids), step))
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def truncate(self, length: int) -> None:
        """Keep the first ``length`` positions and forget the rest."""
        check_int("length", length, 0, self.length)
        self._cache.truncate(length)

    def _checked(self, tokens: Tokens) -> npt.NDArray[np.int32]:
        ids = token_array(tokens, self._n_vocab)
        if ids.size == 0:
            raise InvalidArgumentError("tokens is empty, must hold at least one token id")
        if ids.size > self.n_ctx - self.length:
            raise ContextFullError(
                f"{ids.size} tokens do not fit: {self.length} of the context's {self.n_ctx} "
                "positions are in use; shorten the input or load the model with a larger n_ctx"
            )
        return ids


def _require_memory(needed: int, what: str) -> None:
    available = machine.available_memory()
    if available is not None and needed > available:
        raise OutOfMemoryError(
            f"{what} need about {_megabytes(needed)}, and {_megabytes(available)} are available; "
            "use a smaller or more strongly quantized model"
        )


def _megabytes(n: int) -> str:
    return f"{n / 1e6:,.0f} MB"
