"""What the streams of one model leave to later ones: their tokens.

Boundary: keeps and indexes; :class:`~maglio.draft.cascade.SpeculationIndex` drafts from it. Streams
that share one can quote each other in drafts, never in output: drafts only change speed. Give
streams that must not even share timing one each, or none.
"""

from __future__ import annotations

from array import array
from collections import deque

import numpy as np
import numpy.typing as npt

from maglio._core import FrozenAutomaton
from maglio.errors import InvalidArgumentError

DEFAULT_PAST_TOKENS = 1 << 16
"""Tokens of earlier streams in reach: about 3 MB of index, some 20 ms to build."""

_STALE_SHARE = 8
"""The index is built again when it lacks one token for so many that it holds."""


class PastStreams:
    """The latest streams of a model.

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
        self._forgotten = 0  # tokens
        self._indexed = 0  # tokens, those forgotten since included
        self._index: FrozenAutomaton | None = None

    def index(self) -> FrozenAutomaton | None:
        """An index of the streams; ``None`` if there is nothing to index.

        It may lack the latest tokens, up to an eighth of what it holds: building it takes time in
        proportion to the whole.
        """
        self._forget()
        total = self._forgotten + sum(map(len, self._streams))
        held = 0 if self._index is None else len(self._index)
        if _STALE_SHARE * (total - self._indexed) > held:
            self._indexed = total
            # Copied in one piece while no other thread can append.
            streams = [np.frombuffer(s.tobytes(), dtype=np.int32) for s in self._streams]
            self._index = _frozen(np.concatenate(streams)[-self._token_cap :])
        return self._index

    def follow(self, stream: array[int]) -> None:
        """Remember a stream; what is appended to it later is remembered too."""
        self._streams.append(stream)

    def _forget(self) -> None:
        """Drop the oldest streams that are not in reach."""
        kept = sum(map(len, self._streams))
        while self._streams and kept - len(self._streams[0]) >= self._token_cap:
            gone = len(self._streams.popleft())
            kept -= gone
            self._forgotten += gone


def _frozen(tokens: npt.NDArray[np.int32]) -> FrozenAutomaton | None:
    try:
        return FrozenAutomaton(np.ascontiguousarray(tokens))
    except MemoryError:
        return None  # an index is no reason to stop a generation
