"""What the streams of one model leave to later ones: their tokens, and how well sources did.

Boundary: keeps and indexes; :class:`~maglio.draft.cascade.SpeculationIndex` drafts from it. All
streams that share a history can quote each other in drafts, never in output: drafts only change
speed. Give streams that must not even share timing a history each, or none.
"""

from __future__ import annotations

from array import array
from collections import deque

import numpy as np
import numpy.typing as npt

from maglio._core import FrozenAutomaton
from maglio.draft.calibration import Calibration
from maglio.errors import InvalidArgumentError

DEFAULT_HISTORY_TOKENS = 1 << 16
"""Tokens of earlier streams in reach: about 3 MB of index, some 20 ms to build."""


class History:
    """The latest streams of a model.

    Args:
        token_cap: tokens kept in reach, at least 1; the oldest streams are forgotten first.

    Raises:
        InvalidArgumentError: ``token_cap`` is under 1.
    """

    def __init__(self, *, token_cap: int = DEFAULT_HISTORY_TOKENS) -> None:
        if token_cap < 1:
            raise InvalidArgumentError(f"token_cap is {token_cap}, must be at least 1")
        self._token_cap = token_cap
        self._streams: deque[array[int]] = deque()
        self._calibrations: dict[str, Calibration] = {}
        self._indexed = 0
        self._index: FrozenAutomaton | None = None

    def index(self) -> FrozenAutomaton | None:
        """An index of the streams as they stand now; ``None`` if there is nothing to index."""
        lengths = [len(stream) for stream in self._streams]
        while len(lengths) > 1 and sum(lengths) - lengths[0] >= self._token_cap:
            self._streams.popleft()
            del lengths[0]
        if sum(lengths) != self._indexed:
            self._indexed = sum(lengths)
            tokens = np.concatenate([np.array(stream, dtype=np.int32) for stream in self._streams])
            self._index = _frozen(tokens[-self._token_cap :])
        return self._index

    def follow(self, stream: array[int]) -> None:
        """Remember a stream; what is appended to it later is remembered too."""
        self._streams.append(stream)

    def calibration(self, kind: str) -> Calibration:
        """What was learnt about the sources of a kind."""
        return self._calibrations.setdefault(kind, Calibration(kind))


def _frozen(tokens: npt.NDArray[np.int32]) -> FrozenAutomaton | None:
    try:
        return FrozenAutomaton(np.ascontiguousarray(tokens))
    except MemoryError:
        return None  # an index is no reason to stop a generation
