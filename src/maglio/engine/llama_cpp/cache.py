"""The caches of sequences, behind the seam of :mod:`maglio.engine.base`.

Boundary: which sequence of a context holds what. Runs no forward.

A cache is a beginning of a sequence, and several caches may have the same one: a fork costs nothing
until one of them grows. Who grows takes the sequence if nobody needs it otherwise, and a copy of it
if somebody does. So sequences are few, and what nobody needs any more is dropped before a forward.

A sequence without recurrent layers can be cut at every length, so a cache that is cut only forgets
how long it was. One with states has nothing but its end: there, every cache that does not end with
its sequence has lost it, and who grows takes a copy whenever another cache is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from weakref import WeakSet

from maglio.checks import check_int
from maglio.engine.llama_cpp.context import Context
from maglio.errors import EngineError, InvalidArgumentError, OutOfMemoryError

_KEPT = 4
"""Places that a cache with states comes back to."""


class _Sequence:
    """One sequence of a context.

    Attributes:
        number: what the library calls it.
        end: no position from here on is in it.
    """

    __slots__ = ("end", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.end = 0


class LlamaCppCache:
    """What one sequence has left in a model.

    Args:
        pool: of all sequences.
        sequence: what it is a beginning of; none when it is empty.
        length: how long a beginning.
        kept: places to come back to.

    Attributes:
        known_length: positions held, unless a forward was interrupted.
    """

    __slots__ = ("__weakref__", "_kept", "known_length", "pool", "sequence")

    def __init__(
        self,
        pool: Sequences,
        sequence: _Sequence | None = None,
        length: int = 0,
        kept: tuple[LlamaCppCache, ...] = (),
    ) -> None:
        self.pool = pool
        self.sequence = sequence
        self.known_length = length
        self._kept = kept
        pool.caches.add(self)

    @property
    def length(self) -> int:
        """Positions held."""
        if self.pool.can_cut or self.sequence is None or self.sequence.end == self.known_length:
            return self.known_length
        with self.pool.context.lock:
            return self._settled(self.sequence)

    @property
    def floor(self) -> int:
        """The shortest length that :meth:`truncate` can reach without starting over."""
        return 0 if self.pool.can_cut else self.length

    def truncate(self, length: int) -> int:
        """See :meth:`maglio.engine.base.Cache.truncate`."""
        with self.pool.context.lock:
            check_int("length", length, 0, self.length)
            if self.pool.can_cut:
                self.known_length = length
                self.sequence = self.sequence if length > 0 else None
            elif length < self.length:
                self._go_back(length)
            return self.known_length

    def keep(self) -> None:
        """See :meth:`maglio.engine.base.Cache.keep`."""
        if self.pool.can_cut or self.length == 0:
            return
        with self.pool.context.lock:
            place = LlamaCppCache(self.pool, self.sequence, self.known_length)
            earlier = [one for one in self._kept if one.known_length < self.known_length]
            self._kept = (*earlier[1 - _KEPT :], place)

    def fork(self, length: int) -> LlamaCppCache:
        """See :meth:`maglio.engine.base.Cache.fork`. It takes no memory until one of both grows."""
        with self.pool.context.lock:
            check_int("length", length, 0, self.length)
            if length < self.floor:
                raise InvalidArgumentError(
                    f"length is {length}, must be at least {self.floor}: this model has recurrent "
                    "layers, whose states cannot be cut"
                )
            sequence = self.sequence if length > 0 else None
            return LlamaCppCache(self.pool, sequence, length, self._kept)

    def _settled(self, sequence: _Sequence) -> int:
        """Find out how a forward ended that was interrupted or failed."""
        held = self.pool.context.held(sequence.number)
        if held == sequence.end:
            self.known_length = held
        elif held != self.known_length:  # it ended half-way, and nothing leads back
            self._go_back(self.known_length)
            return self.known_length
        sequence.end = self.known_length
        return self.known_length

    def _go_back(self, length: int) -> None:
        """Be at the last place kept that is not beyond ``length``, or at the beginning."""
        self._kept = tuple(place for place in self._kept if place.known_length <= length)
        place = self._kept[-1] if self._kept else None
        self.sequence = None if place is None else place.sequence
        self.known_length = 0 if place is None else place.known_length


class Sequences:
    """All sequences of a context, and the caches in them.

    Args:
        context: of the library.
        can_cut: whether sequences can be cut at every length.

    Attributes:
        caches: all that are alive.
    """

    def __init__(self, context: Context, *, can_cut: bool) -> None:
        self.context = context
        self.can_cut = can_cut
        self.caches: WeakSet[LlamaCppCache] = WeakSet()
        self._sequences: dict[int, _Sequence] = {}

    def prepare(self, caches: Sequence[LlamaCppCache], added: Iterable[int]) -> list[int]:
        """Give each cache a sequence that ends where it does, for so many positions to be added.

        Returns:
            The numbers of the sequences.

        Raises:
            OutOfMemoryError: there are not as many sequences.
        """
        self._drop_unused()
        grown: list[_Sequence] = []
        for cache, n in zip(caches, added, strict=True):
            length, sequence = cache.length, cache.sequence
            if sequence is None:
                sequence = self._new()
            elif sequence in grown or self._is_needed(sequence, cache):
                sequence = self._copy(sequence, length)
            cache.sequence = sequence
            if sequence.end > length:
                self._cut(sequence, length)
            sequence.end = length + n
            grown.append(sequence)
        return [sequence.number for sequence in grown]

    def _is_needed(self, sequence: _Sequence, cache: LlamaCppCache) -> bool:
        """Whether a cache would be lost if another one grew."""
        others = [one for one in self.caches if one.sequence is sequence and one is not cache]
        if self.can_cut:
            return any(one.known_length > cache.known_length for one in others)
        return bool(others)

    def _new(self) -> _Sequence:
        number = next(
            (n for n in range(self.context.n_sequences) if n not in self._sequences), None
        )
        if number is None:
            raise OutOfMemoryError(
                f"all {self.context.n_sequences} sequences of llama.cpp are in use; end some "
                "streams, or load the model with more cache_tokens"
            )
        sequence = self._sequences[number] = _Sequence(number)
        self.context.truncate(number, 0)  # an interrupt may have left something in it
        return sequence

    def _copy(self, source: _Sequence, length: int) -> _Sequence:
        target = self._new()
        self.context.copy(source.number, target.number)
        if self.can_cut:
            self._cut(target, length)
        target.end = length
        return target

    def _cut(self, sequence: _Sequence, length: int) -> None:
        if not self.context.truncate(sequence.number, length):
            raise EngineError(
                f"llama.cpp did not cut a sequence to {length} positions, as it can for this model"
            )
        sequence.end = length

    def _drop_unused(self) -> None:
        """Free what no cache needs: whole sequences, and ends of others."""
        longest: dict[_Sequence, int] = {}
        for cache in self.caches:
            if cache.sequence is not None:
                known = longest.get(cache.sequence, 0)
                longest[cache.sequence] = max(known, cache.known_length)
        for sequence in list(self._sequences.values()):
            if sequence not in longest:
                self.context.truncate(sequence.number, 0)
                del self._sequences[sequence.number]
            elif self.can_cut and longest[sequence] < sequence.end:
                self._cut(sequence, longest[sequence])
