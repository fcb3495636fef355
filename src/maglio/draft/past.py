"""What earlier streams of a model leave to later ones: their tokens, and what they taught.

Boundary: keeps and indexes; a cascade drafts from it. Streams that share a history can quote each
other in drafts, never in output. A draft that is accepted makes a stream faster, though, so whoever
can time a stream can learn that its text was seen before: give streams that must not learn even
that a history each, or none.
"""

from __future__ import annotations

import os
import warnings
from collections import deque
from threading import Lock
from typing import Protocol
from weakref import WeakSet

import numpy as np

from maglio._core import FrozenAutomaton
from maglio.checks import check_int
from maglio.draft.calibration import Calibrations
from maglio.draft.member import Ids
from maglio.tokens import Tokens, token_array

DEFAULT_HISTORY_TOKENS = 1 << 16
"""Tokens of earlier streams in reach: about 3 MB of index, some 20 ms to build."""

_STALE_SHARE = 8
"""The index is built again when it lacks one token for so many that it holds."""


class HistoryStore(Protocol):
    """Where a history outlives its process."""

    def tokens(self) -> Ids:
        """What was kept, oldest first."""
        ...

    def add(self, tokens: Ids) -> None:
        """Keep the tokens of one more stream."""
        ...


class History:
    """The latest streams of a model, in memory. Streams may run in several threads.

    Args:
        max_tokens: tokens kept in reach, at least 1; the oldest are forgotten first.
        store: keeps the tokens on disk too, and has those of earlier processes.

    Raises:
        InvalidArgumentError: ``max_tokens`` is under 1.
        IndexFileError: what the store has cannot be read or trusted.
    """

    def __init__(
        self, *, max_tokens: int = DEFAULT_HISTORY_TOKENS, store: HistoryStore | None = None
    ) -> None:
        check_int("max_tokens", max_tokens, 1, 1 << 30)
        self._max_tokens = max_tokens
        self._streams: deque[Ids] = deque()
        self._held = 0  # tokens in streams
        self._fresh = 0  # of them, what the index lacks
        self._lock = Lock()
        _histories.add(self)
        self._index: FrozenAutomaton | None = None
        self._store = store
        # What is sampled repeats itself less than what is chosen greedily.
        self._learnt = {True: Calibrations(), False: Calibrations()}
        if store is not None:
            self._remember(store.tokens())

    def __len__(self) -> int:
        """Tokens in reach."""
        return min(self._held, self._max_tokens)

    def add(self, tokens: Tokens) -> None:
        """Remember the tokens of a stream, or of one more part of it.

        Raises:
            InvalidArgumentError: a token id is not valid.
        """
        ids = token_array(tokens).copy()
        if len(ids) == 0:
            return
        with self._lock:
            self._remember(ids)
        store = self._store
        if store is not None:
            self._keep(store, ids)

    def index(self) -> FrozenAutomaton | None:
        """An index of the streams; ``None`` if there is nothing to index.

        It may lack the latest tokens, up to an eighth of what it holds: building it takes time in
        proportion to the whole.
        """
        with self._lock:
            indexed = 0 if self._index is None else len(self._index)
            if self._fresh * _STALE_SHARE > indexed:
                self._index = _frozen(np.concatenate(self._streams)[-self._max_tokens :])
                self._fresh = 0
            return self._index

    def calibrations(self, *, greedy: bool) -> Calibrations:
        """What earlier streams taught about sources; greedy streams and sampled ones apart."""
        return self._learnt[greedy]

    def _keep(self, store: HistoryStore, ids: Ids) -> None:
        """A store that fails is left alone: a history changes speed and nothing else."""
        try:
            store.add(ids)
        except Exception as error:
            self._store = None
            warnings.warn(f"streams are not kept on disk: {error}", RuntimeWarning, stacklevel=3)

    def _remember(self, ids: Ids) -> None:
        self._streams.append(ids)
        self._held += len(ids)
        self._fresh += len(ids)
        while self._streams and self._held - len(self._streams[0]) >= self._max_tokens:
            self._held -= len(self._streams.popleft())


_histories: WeakSet[History] = WeakSet()
_forking = Lock()  # one thread at a time, or two could wait for each other
_held: list[Lock] = []  # while this process forks


def _hold() -> None:
    """Before a fork: wait until nobody changes a history, since in the child nobody would end."""
    _forking.acquire()
    for history in list(_histories):
        history._lock.acquire()
        _held.append(history._lock)


def _let_go() -> None:
    while _held:
        _held.pop().release()
    _forking.release()


os.register_at_fork(before=_hold, after_in_parent=_let_go, after_in_child=_let_go)


def _frozen(tokens: Ids) -> FrozenAutomaton | None:
    try:
        return FrozenAutomaton(np.ascontiguousarray(tokens))
    except MemoryError:
        return None  # an index is not a reason to stop a generation
