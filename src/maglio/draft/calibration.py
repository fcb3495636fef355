"""How likely the tokens of a draft are to be accepted, learnt while decoding. Decides nothing.

A draft token is accepted or not given that all before it were, so what is learnt is a hazard: the
probability that one more token is accepted. It depends on how much is known to agree so far: the
match before the draft, plus the draft tokens before this one. (A match of 3 whose first 2 draft
tokens hold is as good as a match of 5.) That makes one small table per source, which learns from
every position of every draft.

Three layers, from stiff to soft: a built-in table; a shift of it in log-odds, one number per
source, which tells repetitive streams from others within a few tokens; and counts per cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

PRIORS: dict[str, tuple[float, ...]] = {
    "conversation": (0.10, 0.22, 0.45, 0.62, 0.69, 0.76, 0.81, 0.85, 0.89, 0.94, 0.97, 0.99),
    "reference": (0.10, 0.22, 0.45, 0.62, 0.69, 0.76, 0.81, 0.85, 0.89, 0.94, 0.97, 0.99),
    "history": (0.10, 0.22, 0.45, 0.62, 0.69, 0.76, 0.81, 0.85, 0.89, 0.94, 0.97, 0.99),
    "recycling": (0.25, 0.50, 0.60, 0.66, 0.70, 0.74, 0.76, 0.78, 0.78, 0.78, 0.78, 0.78),
}
"""Hazards by cell of agreement, measured on recorded runs and conversations."""

_EDGES = (0, 1, 2, 3, 4, 6, 8, 12, 20, 40, 80)  # the last agreement of each cell but the last
_CELL_OF = [sum(edge < agreed for edge in _EDGES) for agreed in range(_EDGES[-1] + 2)]
_SHIFT_RATE = 0.08
_MAX_SHIFT = 3.0
_PRIOR_WEIGHT = 12.0  # a cell's own counts outweigh the built-in table after this many tokens
_MEMORY = 256  # counts are halved here, so that a stream may change its mind


def cell_of(agreed: int) -> int:
    """The cell of the table for ``agreed`` tokens of agreement."""
    return _CELL_OF[min(agreed, len(_CELL_OF) - 1)]


class Calibration:
    """Hazards of one source.

    Args:
        kind: the source's kind, which picks the built-in table.
    """

    __slots__ = ("_accepted", "_hazards", "_log_odds", "_shift", "_tried")

    def __init__(self, kind: str) -> None:
        self._log_odds = [log(p / (1.0 - p)) for p in PRIORS[kind]]
        self._shift = 0.0
        self._accepted = [0.0] * len(self._log_odds)
        self._tried = [0.0] * len(self._log_odds)
        self._hazards: list[float] | None = list(PRIORS[kind])

    def hazards(self) -> list[float]:
        """By cell, the probability that the next draft token is accepted."""
        if self._hazards is None:
            self._hazards = [self._estimate(cell) for cell in range(len(self._log_odds))]
        return self._hazards

    def learn(self, agreed: int, draft: Sequence[int], committed: Sequence[int]) -> None:
        """A draft made after ``agreed`` agreeing tokens met what was committed.

        Tokens past the first difference, and past the end of what was committed, tell nothing.
        """
        for proposed, token in zip(draft, committed, strict=False):
            accepted = proposed == token
            self._count(cell_of(agreed), accepted)
            if not accepted:
                break
            agreed += 1
        self._hazards = None

    def _count(self, cell: int, accepted: bool) -> None:
        shift = self._shift + _SHIFT_RATE * (accepted - self._prior(cell))
        self._shift = max(-_MAX_SHIFT, min(_MAX_SHIFT, shift))
        self._tried[cell] += 1
        self._accepted[cell] += accepted
        if self._tried[cell] >= _MEMORY:
            self._tried[cell] /= 2
            self._accepted[cell] /= 2

    def _prior(self, cell: int) -> float:
        return 1.0 / (1.0 + exp(-self._log_odds[cell] - self._shift))

    def _estimate(self, cell: int) -> float:
        weighted = self._accepted[cell] + _PRIOR_WEIGHT * self._prior(cell)
        return weighted / (self._tried[cell] + _PRIOR_WEIGHT)
