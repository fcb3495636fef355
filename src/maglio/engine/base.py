"""The engine seam: token ids in, logits out. No sampling, no text.

An :class:`Engine` holds weights, a :class:`Cache` holds what one sequence has left in them, and a
forward takes a batch of :class:`Segment`: new tokens for any number of caches. Everything above
this module works with any engine that keeps these protocols; :mod:`maglio.engine.conformance`
checks that one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from maglio.tokens import Tokens

Logits = npt.NDArray[np.float32]
Exactness = Literal["bitwise", "distribution"]


class Cache(Protocol):
    """The KV cache (and any recurrent state) of one sequence. For one thread at a time."""

    @property
    def length(self) -> int:
        """Positions held."""
        ...

    @property
    def floor(self) -> int:
        """The shortest length that :meth:`truncate` can reach without starting over."""
        ...

    def truncate(self, length: int) -> int:
        """Keep at most the first ``length`` positions, and return how many are kept.

        That is ``length`` from :attr:`floor` up. Below it, it may be any shorter length, that of
        the last place kept before at best, and 0 at worst: the caller feeds again what is missing.

        Raises:
            InvalidArgumentError: ``length`` is negative or more than the cache holds.
        """
        ...

    def keep(self) -> None:
        """Remember about where the cache is, for :meth:`truncate` to come back to.

        A hint, given at the end of a prompt. It says something to caches that cannot reach every
        shorter length; they keep the last few such places.
        """
        ...

    def fork(self, length: int) -> Cache:
        """Return an independent cache of the first ``length`` positions.

        Raises:
            InvalidArgumentError: ``length`` is below :attr:`floor` or more than the cache holds.
            OutOfMemoryError: there is no memory for it.
        """
        ...


class Segment(NamedTuple):
    """What a forward appends to one cache.

    Attributes:
        cache: a cache of the engine; a batch names it once.
        tokens: the new token ids, at least one.
        n_logits: how many rows of logits are wanted, those of the last tokens; 0 for none.
    """

    cache: Cache
    tokens: Tokens
    n_logits: int


class Engine(Protocol):
    """Loaded weights. Caches of one engine are independent of each other."""

    @property
    def name(self) -> str:
        """Short name for reports, such as ``native``."""
        ...

    @property
    def exactness(self) -> Exactness:
        """``bitwise`` when rows obey the row law, ``distribution`` when they may be rounded."""
        ...

    @property
    def n_vocab(self) -> int:
        """Number of token ids; valid ids are ``0 .. n_vocab - 1``."""
        ...

    @property
    def n_ctx(self) -> int:
        """Most positions of a cache."""
        ...

    @property
    def max_rows(self) -> int:
        """Most tokens of one forward, all segments together."""
        ...

    @property
    def can_rewind(self) -> bool:
        """Whether a cache can drop the tokens of its last forward one by one.

        Without it nothing is ever drafted: rejected draft tokens could not be dropped.
        """
        ...

    def new_cache(self) -> Cache:
        """Start an empty sequence.

        Raises:
            OutOfMemoryError: there is no memory for it.
        """
        ...

    def forward(self, batch: Sequence[Segment]) -> list[Logits]:
        """Append every segment to its cache.

        All or nothing: whatever is raised, every cache holds what it held before.

        Returns:
            For each segment its rows, float32 ``(n_logits, n_vocab)``. They may be overwritten by
            the next forward.

        Raises:
            InvalidArgumentError: a segment is empty, too long, or has an id outside the vocabulary.
            ContextFullError: a segment does not fit its cache.
            OutOfMemoryError: there is no memory for the new positions.
        """
        ...


class SavedCache(NamedTuple):
    """A cache as it is saved.

    Attributes:
        owner: 32 bytes that say whose it is.
        tokens: what the cache holds, one id per position.
        cache: holds at least one position.
    """

    owner: bytes
    tokens: npt.NDArray[np.int32]
    cache: Cache


@runtime_checkable
class CacheSaver(Protocol):
    """What an engine has besides whose caches can be saved."""

    @property
    def cache_file(self) -> str:
        """A name for the file of its caches; that of another model is another one."""
        ...

    def write_caches(self, caches: Sequence[SavedCache], descriptor: int) -> None:
        """Write caches to an open, empty file. What they share is written once.

        Raises:
            CacheFileError: the file cannot be written.
        """
        ...

    def read_caches(self, descriptor: int, max_bytes: int) -> list[SavedCache]:
        """Read what an engine wrote whose rows are the same to the bit.

        Returns:
            The first caches in the file, as many as take at most ``max_bytes``, and as there is
            memory for.

        Raises:
            CacheFileError: the file is damaged, or another engine wrote it.
        """
        ...
