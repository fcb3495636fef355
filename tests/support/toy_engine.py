"""A model small enough to reason about: logits are a hash of the tokens before."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from operator import attrgetter

import numpy as np

from maglio.decode import Picker
from maglio.engine.base import Segment
from maglio.errors import ContextFullError, InvalidArgumentError, OutOfMemoryError

_MIX = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


class ToyCache:
    """The tokens of one sequence.

    That of a hybrid engine can go back to before the rows of its last forward, and to kept places.
    """

    def __init__(
        self,
        engine: ToyEngine,
        tokens: Sequence[int] = (),
        floor: int = 0,
        places: Sequence[int] = (),
    ) -> None:
        self.tokens = list(tokens)
        self.floor = floor
        self.places = list(places)
        self._engine = engine
        engine.caches.add(self)

    @property
    def length(self) -> int:
        return len(self.tokens)

    def truncate(self, length: int) -> int:
        if not 0 <= length <= self.length:
            raise InvalidArgumentError(f"length is {length}, must be 0 to {self.length}")
        kept = length if self._engine.can_rewind or length == self.length else 0
        if length < self.floor:
            self.places = [place for place in self.places if place <= length]
            kept = self.floor = max(self.places, default=0)
        del self.tokens[kept:]
        return kept

    def keep(self) -> None:
        self.places = sorted({*self.places, self.floor})[-4:]

    def fork(self, length: int) -> ToyCache:
        if not self.floor <= length <= self.length:
            raise InvalidArgumentError(f"length is {length}, must be {self.floor} to {self.length}")
        return ToyCache(self._engine, self.tokens[:length], self.floor, self.places)


class ToyEngine:
    """An engine that keeps the row law by construction and records what it was asked for.

    Args:
        n_vocab: number of token ids.
        n_ctx: positions a cache can hold.
        order: how many of the last tokens a row depends on; few make a repetitive stream.
        spread: how far logits lie apart.
        can_rewind: whether truncate can go back less than all the way.
        is_hybrid: whether it can only go back into the last forward, and to kept places.
        capacity: positions that all caches together can hold.
        drift: how far logits of a row are from those of the row alone, where the forward computes
            others too; another distance for each width.
        before_call: called with the index of each forward, may raise.
        after_call: called with it when everything is appended, may not raise.
    """

    name = "toy"
    exactness = "bitwise"
    max_rows = 128

    def __init__(
        self,
        n_vocab: int = 60,
        *,
        n_ctx: int = 512,
        order: int = 512,
        spread: float = 6.0,
        can_rewind: bool = True,
        is_hybrid: bool = False,
        capacity: int = 1 << 30,
        drift: float = 0.0,
        before_call: Callable[[int], None] = lambda _: None,
        after_call: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.n_vocab = n_vocab
        self.n_ctx = n_ctx
        self.can_rewind = can_rewind
        self.is_hybrid = is_hybrid
        self.calls: list[list[Segment]] = []
        self.capacity = capacity
        self.drift = drift
        if drift > 0.0:
            self.exactness = "distribution"
        self.caches: weakref.WeakSet[ToyCache] = weakref.WeakSet()
        self._order = order
        self._spread = spread
        self._before_call = before_call
        self._after_call = after_call

    @property
    def forwards(self) -> list[tuple[int, ...]]:
        """What plain and verify steps were fed, stream by stream."""
        segments = [segment for batch in self.calls for segment in batch]
        return [tuple(s.tokens) for s in segments if s.n_logits == len(s.tokens)]

    def new_cache(self) -> ToyCache:
        return ToyCache(self)

    def row(self, prefix: Sequence[int]) -> np.ndarray:
        return (self._spread * self._uniform(prefix)).astype(np.float32)

    def _row_of(self, prefix: Sequence[int], width: int) -> np.ndarray:
        """The row as a forward of ``width`` tokens computes it."""
        if width == 1 or self.drift == 0.0:
            return self.row(prefix)
        away = self.drift * (2.0 * self._uniform((*prefix, width)) - 1.0)
        return (self.row(prefix) + away).astype(np.float32)

    def _uniform(self, prefix: Sequence[int]) -> np.ndarray:
        state = 0
        for token in prefix[-self._order :]:
            state = ((state ^ (token + 1)) * _MIX) & _MASK
            state ^= state >> 29
        x = np.arange(1, self.n_vocab + 1, dtype=np.uint64) * np.uint64(_MIX) + np.uint64(state)
        for shift in (30, 27, 31):
            x = (x ^ (x >> np.uint64(shift))) * np.uint64(0xBF58476D1CE4E5B9)
        return (x >> np.uint64(40)) / 2**24

    def forward(self, batch: Sequence[Segment]) -> list[np.ndarray]:
        call = len(self.calls)
        self.calls.append([Segment(s.cache, tuple(s.tokens), s.n_logits) for s in batch])
        self._check(batch)
        self._before_call(call)
        width = sum(len(segment.tokens) for segment in batch)
        rows = [self._append(*segment, width) for segment in batch]
        self._after_call(call)
        return rows

    def _check(self, batch: Sequence[Segment]) -> None:
        caches = {id(segment.cache) for segment in batch}
        n = sum(len(segment.tokens) for segment in batch)
        if not batch or len(caches) < len(batch) or n > self.max_rows:
            raise InvalidArgumentError(f"a batch of {len(batch)} segments with {n} rows")
        for cache, tokens, n_logits in batch:
            if not isinstance(cache, ToyCache) or cache._engine is not self:
                raise InvalidArgumentError("a cache of another engine")
            if not 0 <= n_logits <= len(tokens) or len(tokens) == 0:
                raise InvalidArgumentError(f"{n_logits} rows of {len(tokens)} tokens")
            if not all(0 <= int(token) < self.n_vocab for token in tokens):
                raise InvalidArgumentError(f"an id of {tokens} is not in the vocabulary")
            if cache.length + len(tokens) > self.n_ctx:
                raise ContextFullError(f"{len(tokens)} tokens after {cache.length}")
        held = sum(map(len, map(attrgetter("tokens"), self.caches)))
        if held + n > self.capacity:
            raise OutOfMemoryError(f"{held} positions and {n} more, of {self.capacity}")

    def _append(
        self, cache: ToyCache, tokens: Sequence[int], n_logits: int, width: int
    ) -> np.ndarray:
        whole = cache.tokens + [int(token) for token in tokens]
        first = len(whole) - n_logits
        rows = [self._row_of(whole[: first + 1 + i], width) for i in range(n_logits)]
        cache.tokens[:] = whole
        if self.is_hybrid:
            cache.floor = len(whole) - max(1, n_logits)
        return np.stack(rows) if rows else np.empty((0, self.n_vocab), np.float32)


def decode_plainly(
    engine: ToyEngine, picker: Picker, prompt: Sequence[int], max_tokens: int
) -> list[int]:
    """The definition that all decoding has to agree with: one row, one pick, one token."""
    stream = list(prompt)
    while len(stream) - len(prompt) < max_tokens and len(stream) <= engine.n_ctx:
        picker.follow(stream, kept=len(stream), answer=len(prompt))
        stream.append(picker.pick(engine.row(stream), len(stream) - len(prompt)))
    return stream[len(prompt) :]
