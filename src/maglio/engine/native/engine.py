"""The native engine, behind the seam of :mod:`maglio.engine.base`.

Caches and the checks of a batch are in the C++ core too (``csrc/engine/engine.h``).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Literal

from maglio import _core, machine
from maglio.checks import check_choice, check_int
from maglio.engine.base import Logits, SavedCache, Segment
from maglio.engine.native.weights import load_model
from maglio.gguf import ModelFile
from maglio.kept_weights import KeptWeights
from maglio.version import __version__

_MAX_THREADS = 256
_NO_LIMIT = 0

KV_CACHES = {"f16": _core.CacheType.F16, "q8_0": _core.CacheType.Q8_0}
"""Precisions of the KV cache by name."""


class NativeEngine:
    """Weights of one GGUF file, and the threads that run it.

    Args:
        file: the open model file.
        n_ctx: positions of a session; at most what the model was trained for.
        threads: number of threads; physical cores when ``None``.
        kv_cache: precision of keys and values: ``f16``, half precision; or ``q8_0``, 8 bits and a
            scale per 32 values, about half the bytes.
        keep_weights: repacked weights are kept on disk, and mapped from there the next time.
        on_load: is called now and then with bytes done and bytes in all, of what is read and then
            of what is kept.

    Raises:
        ModelFileError: the file cannot be used: see :func:`~.weights.load_model`.
        InvalidArgumentError: ``n_ctx`` or ``threads`` is out of range, ``kv_cache`` or
            ``MAGLIO_ISA`` unknown.
        OutOfMemoryError: the weights do not fit in memory.
    """

    name = "native"
    exactness: Literal["bitwise"] = "bitwise"
    can_rewind = True
    max_rows: int = _core.Engine.MAX_ROWS

    def __init__(
        self,
        file: ModelFile,
        *,
        n_ctx: int = 4096,
        threads: int | None = None,
        kv_cache: str = "f16",
        keep_weights: bool = False,
        on_load: Callable[[int, int], object] | None = None,
    ) -> None:
        threads = machine.physical_cores() if threads is None else threads
        check_int("n_ctx", n_ctx, 1, 2**30)
        check_int("threads", threads, 1, _MAX_THREADS)
        check_choice("kv_cache", kv_cache, tuple(KV_CACHES))
        isa = machine.choose_isa()
        self.path: Path = file.path
        self._kv_cache = kv_cache
        architecture = file.text("general.architecture")
        self._n_ctx = min(n_ctx, file.integer(f"{architecture}.context_length", n_ctx))
        kept = KeptWeights(file.path) if keep_weights else None
        self._model = load_model(
            file,
            threads=threads,
            n_ctx=self._n_ctx,
            cache_type=KV_CACHES[kv_cache],
            kept=kept,
            on_load=on_load,
        )
        self._n_vocab: int = self._model.spec.n_vocab
        self._file_identity = file.header.identity
        self._core = _core.Engine(
            self._model, isa, threads, KV_CACHES[kv_cache], _cache_budget(self._model)
        )

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
    def kv_cache(self) -> str:
        """Precision of keys and values."""
        return self._kv_cache

    @property
    def weight_bytes(self) -> int:
        """Bytes of the repacked weights."""
        return int(self._model.weight_bytes)

    @property
    def cache_bytes(self) -> int:
        """Bytes in use by the caches of all open sequences; what they share counts once."""
        return int(self._core.cache_bytes)

    @property
    def page_bytes(self) -> int:
        """Bytes of a page, by which caches grow: 64 positions of every layer."""
        return int(self._core.page_bytes)

    @property
    def state_bytes(self) -> int:
        """Bytes of the states of all recurrent layers at one position; 0 without such layers."""
        return int(self._core.state_bytes)

    @property
    def row_bytes(self) -> int:
        """Bytes of what one row feeds into all recurrent layers."""
        return int(self._core.row_bytes)

    @cached_property
    def fingerprint(self) -> str:
        """64 bits as hexadecimal digits: engines whose rows may differ have different ones.

        The same model file, precision of the cache, rotations, and build of Maglio have the same.
        A model file is known by its sizes, times and headers.
        """
        parts = (self._file_identity, self._model.spec.rotations, self._kv_cache, __version__)
        digest = hashlib.sha256(repr(parts).encode() + _build()).hexdigest()
        return digest[:16]

    @property
    def cache_file(self) -> str:
        """See :class:`maglio.engine.base.CacheSaver`."""
        whole = os.path.realpath(self.path)
        digest = hashlib.sha256(os.fsencode(whole)).hexdigest()[:16]
        return f"{Path(whole).stem[:100]}-{digest}-{self._kv_cache}.caches"

    def write_caches(self, caches: Sequence[SavedCache], descriptor: int) -> None:
        """See :meth:`maglio.engine.base.CacheSaver.write_caches`."""
        self._core.write_caches(int(self.fingerprint, 16), caches, descriptor)

    def read_caches(self, descriptor: int, max_bytes: int) -> list[SavedCache]:
        """See :meth:`maglio.engine.base.CacheSaver.read_caches`."""
        key = int(self.fingerprint, 16)
        read = self._core.read_caches(key, self._n_ctx, max_bytes, descriptor)
        return [SavedCache(*each) for each in read]

    def new_cache(self) -> _core.Cache:
        """Start an empty sequence. It takes memory as it grows."""
        return self._core.new_cache(self._n_ctx)

    def forward(self, batch: Sequence[Segment]) -> list[Logits]:
        """See :meth:`maglio.engine.base.Engine.forward`."""
        return self._core.forward(batch)


@cache
def _build() -> bytes:
    """What tells apart builds of the core, each of which may round in its own way."""
    return hashlib.sha256(Path(_core.__file__).read_bytes()).digest()


def _cache_budget(model: _core.Model) -> int:
    """What caches may take: memory that is available now, and that no weights will need.

    Pages of mapped weights may be counted as available, or as in use; at least half is left.
    """
    available = machine.available_memory()
    if available is None:
        return _NO_LIMIT
    needed = model.weight_bytes if model.is_mapped else 0
    return max(1, available // 2, available - needed)
