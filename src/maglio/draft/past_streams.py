"""What the streams of one model leave to later ones: their tokens.

Boundary: keeps and indexes; :class:`~maglio.draft.cascade.SpeculationIndex` drafts from it. Streams
that share one can quote each other in drafts, never in output: drafts only change speed. Give
streams that must not even share timing one each, or none.
"""

from __future__ import annotations

from array import array
from collections import deque
from threading import Lock

import numpy as np
import numpy.typing as npt

from maglio._core import FrozenAutomaton
from maglio.errors import InvalidArgumentError

DEFAULT_PAST_TOKENS = 1 << 16
"""Tokens of earlier streams in reach: about 3 MB of index, some 20 ms to build."""

_STALE_SHARE = 8
"""The index is built again when it lacks one token for so many that it holds."""


class PastStreams:
    """The latest streams of a model, which may run in several threads.

    Args:
        token_cap: tokens kept in reach, at least 1; the oldest streams are forgotten first.

    Raises:
        InvalidArgumentError: ``token_cap`` is under 1.
    """

    def __init__(self, *, token_cap: int = DEFAULT_PAST_TOKENS) -> None:
        if token_cap < 1:
            raise InvalidArgumentError(f"token_cap is {token_cap}, must be at least 1")
        self._token_cap = token_cap
        self._streams: deque[array[int]] = deque()
        self._indexed = 0  # tokens when the index was built
        self._lock = Lock()
        self._index: FrozenAutomaton | None = None

    def index(self) -> FrozenAutomaton | None:
        """An index of the streams; ``None`` if there is nothing to index.

        It may lack the latest tokens, up to an eighth of what it holds: building it takes time in
        proportion to the whole.
        """
        with self._lock:
            self._forget()
            total = sum(map(len, self._streams))
            # Streams lose their beginning when they are long, so a total can fall.
            if total < self._indexed or _STALE_SHARE * (total - self._indexed) > self._held:
                self._indexed = total
                # Copied in one piece each, while no other thread can append.
                streams = [np.frombuffer(s.tobytes(), dtype=np.int32) for s in self._streams]
                self._index = _frozen(np.concatenate(streams)[-self._token_cap :])
            return self._index

    def follow(self, stream: array[int]) -> None:
        """Remember a stream; what is appended to it later is remembered too."""
        with self._lock:
            self._streams.append(stream)

    @property
    def _held(self) -> int:
        return 0 if self._index is None else len(self._index)

    def _forget(self) -> None:
        """Drop the oldest streams that are not in reach."""
        kept = sum(map(len, self._streams))
        while self._streams and kept - len(self._streams[0]) >= self._token_cap:
            gone = len(self._streams.popleft())
            kept -= gone
            self._indexed -= gone


def _frozen(tokens: npt.NDArray[np.int32]) -> FrozenAutomaton | None:
    try:
        return FrozenAutomaton(np.ascontiguousarray(tokens))
    except MemoryError:
        return None  # an index is no reason to stop a generation
