"""llama.cpp, behind the seam of the engines.

Boundary: token ids in, logits out. Loads nothing and chooses no settings
(:mod:`maglio.engine.llama_cpp.ladder`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import llama_cpp
import numpy as np
import numpy.typing as npt

from maglio.engine.base import Exactness, Logits, Segment
from maglio.engine.llama_cpp.cache import LlamaCppCache, Sequences
from maglio.engine.llama_cpp.context import MAX_OUTPUTS, Context
from maglio.engine.llama_cpp.rows import LentRows
from maglio.engine.llama_cpp.settings import Settings
from maglio.errors import ContextFullError, InvalidArgumentError
from maglio.tokens import token_array


class _Flat(NamedTuple):
    """A batch as the library takes it: a line for each token, segment after segment.

    Attributes:
        tokens: int32 ids.
        positions: int32, each in its sequence.
        sequences: int32 numbers.
        wanted: whether its row is.
    """

    tokens: npt.NDArray[np.int32]
    positions: npt.NDArray[np.int32]
    sequences: npt.NDArray[np.int32]
    wanted: npt.NDArray[np.bool_]

    def pieces(self, *, streams_apart: bool) -> Iterator[_Flat]:
        """What one call of the library takes, in order: as many rows wanted as it gives."""
        full = np.flatnonzero(self.wanted)[MAX_OUTPUTS - 1 :: MAX_OUTPUTS] + 1
        streams = np.flatnonzero(np.diff(self.sequences)) + 1 if streams_apart else full[:0]
        for begin, end in pairwise(
            sorted({0, *full.tolist(), *streams.tolist(), len(self.tokens)})
        ):
            part = slice(begin, end)
            yield _Flat(
                self.tokens[part], self.positions[part], self.sequences[part], self.wanted[part]
            )


class LlamaCppEngine:
    """A context of llama.cpp as an engine. Several threads may use it, and wait for each other.

    Args:
        context: of the library.
        n_ctx: most positions of a cache.
        threads: threads on the CPU.

    Attributes:
        context: of the library.
        max_rows: most tokens of one forward.
    """

    name = "llama.cpp"

    def __init__(self, context: Context, *, n_ctx: int, threads: int) -> None:
        self._exactness: Exactness = "distribution"
        self.context = context
        self.max_rows = context.n_batch
        self._n_ctx = n_ctx
        self._threads = threads
        self._n_vocab = context.model.n_vocab
        self._sequences = Sequences(context, can_cut=not context.model.has_states)
        self._turn = threading.RLock()  # so a thread that was interrupted does not wait for itself
        self._rows = LentRows()

    @property
    def n_vocab(self) -> int:
        """Number of token ids; valid ids are ``0 .. n_vocab - 1``."""
        return self._n_vocab

    @property
    def n_ctx(self) -> int:
        """Most positions of a cache."""
        return self._n_ctx

    @property
    def exactness(self) -> Exactness:
        """``distribution``, unless whoever compared rows says otherwise.

        Where streams share cells nobody can: what was equal once need not be so among other
        neighbours.
        """
        return self._exactness

    @exactness.setter
    def exactness(self, found: Exactness) -> None:
        if found == "bitwise" and self.settings.shared_cells:
            raise AttributeError("streams that share cells depend on their neighbours")
        self._exactness = found

    @property
    def exactness_remedy(self) -> str:
        """What makes rows more exact."""
        if self.settings.shared_cells:
            return "with exact='require' llama.cpp computes exactly where it can, and slower"
        return "" if self.context.offload.is_cpu else "on the CPU (n_gpu_layers=0) rows are exact"

    @property
    def can_rewind(self) -> bool:
        """Whether sequences can be cut; not where layers are recurrent."""
        return self._sequences.can_cut

    @property
    def settings(self) -> Settings:
        """How the library computes."""
        return self.context.settings

    @property
    def kv_cache(self) -> str:
        """Data type of keys and values."""
        return self.settings.kv_cache

    @property
    def version(self) -> str:
        """Version of the package."""
        return f"llama-cpp-python {llama_cpp.__version__}"

    @property
    def threads(self) -> int:
        """Threads on the CPU, for one row and for many."""
        return self._threads

    @property
    def isa(self) -> str:
        """What the library was built for, in its own words, and how it computes."""
        built = llama_cpp.llama_print_system_info().decode("utf-8", "replace").strip()
        return f"{built} {self.settings}"

    def new_cache(self) -> LlamaCppCache:
        """Start an empty sequence. It takes nothing until its first forward."""
        with self.context.lock:
            return LlamaCppCache(self._sequences)

    def forward(self, batch: Sequence[Segment]) -> list[Logits]:
        """See :meth:`maglio.engine.base.Engine.forward`.

        If the library fails in the middle, a cache of a model with recurrent layers holds what it
        held at the last place kept, or nothing.

        Raises:
            EngineError: the library failed.
        """
        caches = self._checked(batch)
        tokens = [token_array(segment.tokens) for segment in batch]
        self._rows.give_back()
        with self._turn:
            self._rows.claim()  # without the lock: who still reads may use it before
            with self.context.lock:
                lengths = [len(ids) for ids in tokens]
                numbers = self._sequences.prepare(caches, lengths)
                rows = self._run(_flat(batch, tokens, caches, numbers))
                for cache, length in zip(caches, lengths, strict=True):
                    cache.known_length += length
        ends = np.cumsum([segment.n_logits for segment in batch])
        return [
            rows[end - segment.n_logits : end] for segment, end in zip(batch, ends, strict=True)
        ]

    def _run(self, flat: _Flat) -> Logits:
        """Compute, and return all rows that are wanted."""
        pieces = list(flat.pieces(streams_apart=self.settings.streams_apart))
        if len(pieces) == 1:
            return self._piece(flat)
        return np.concatenate([self._piece(piece).copy() for piece in pieces])

    def _piece(self, piece: _Flat) -> Logits:
        self.context.decode(*piece)
        n_rows = int(piece.wanted.sum())
        if n_rows == 0:
            return np.empty((0, self._n_vocab), np.float32)
        return self._rows.lend(self.context.logits(), n_rows, self._n_vocab, self.context)

    def _checked(self, batch: Sequence[Segment]) -> list[LlamaCppCache]:
        total = sum(len(segment.tokens) for segment in batch)
        if not 1 <= total <= self.max_rows:
            raise InvalidArgumentError(
                f"a batch has {total} tokens, must have from 1 to {self.max_rows}"
            )
        if len({id(segment.cache) for segment in batch}) < len(batch):
            raise InvalidArgumentError("a batch names a cache twice, may name it once")
        caches = []
        for segment in batch:
            cache, n = segment.cache, len(segment.tokens)
            if not isinstance(cache, LlamaCppCache) or cache.pool is not self._sequences:
                raise InvalidArgumentError("a batch has a cache of another engine")
            if n == 0 or not 0 <= segment.n_logits <= n:
                raise InvalidArgumentError(
                    f"a segment of {n} tokens wants {segment.n_logits} rows; it must have a token, "
                    "and at most as many rows"
                )
            token_array(segment.tokens, self._n_vocab)
            if cache.length + n > self._n_ctx:
                raise ContextFullError(
                    f"{n} tokens do not fit after {cache.length} in a context of {self._n_ctx}"
                )
            caches.append(cache)
        return caches


def _flat(
    batch: Sequence[Segment],
    tokens: Sequence[npt.NDArray[np.int32]],
    caches: Sequence[LlamaCppCache],
    numbers: Sequence[int],
) -> _Flat:
    lengths = [len(ids) for ids in tokens]
    return _Flat(
        np.concatenate(tokens),
        np.concatenate(
            [
                np.arange(cache.known_length, cache.known_length + n, dtype=np.int32)
                for cache, n in zip(caches, lengths, strict=True)
            ]
        ),
        np.repeat(np.asarray(numbers, np.int32), lengths),
        np.concatenate(
            [
                np.arange(n) >= n - segment.n_logits
                for segment, n in zip(batch, lengths, strict=True)
            ]
        ),
    )
