"""How likely the tokens of a draft are to be accepted, learnt while decoding. Decides nothing.

A draft token is accepted or not given that all before it were, so what is learnt is a hazard: the
probability that one more token is accepted. It depends on how much is known to agree so far, the
match before the draft plus the draft tokens before this one (a match of 3 whose first 2 draft
tokens hold is as good as a match of 5), and on the evidence: how often the index has seen that
context, and how often the token followed (``csrc/draft/evidence.h``). That makes one table per
source, of agreement by evidence, which learns from every position of every draft.

Three layers, from stiff to soft: a built-in table; a shift of it in log-odds, one number per
source, which tells repetitive streams from others within a few tokens; and counts per cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, log
from typing import NamedTuple

EVIDENCE = ("once", "again", "always", "mostly", "sometimes", "seldom")
"""The classes of evidence, as the native indexes number them."""

_MATCHED = (
    (0.10, 0.10, 0.10, 0.10, 0.10, 0.10),
    (0.36, 0.57, 0.77, 0.40, 0.22, 0.13),
    (0.50, 0.71, 0.82, 0.42, 0.22, 0.13),
    (0.61, 0.76, 0.88, 0.45, 0.24, 0.16),
    (0.66, 0.80, 0.90, 0.50, 0.27, 0.20),
    (0.72, 0.85, 0.94, 0.60, 0.35, 0.20),
    (0.81, 0.91, 0.95, 0.70, 0.37, 0.25),
    (0.83, 0.94, 0.95, 0.70, 0.40, 0.30),
    (0.87, 0.95, 0.96, 0.70, 0.45, 0.35),
    (0.92, 0.96, 0.97, 0.80, 0.50, 0.40),
    (0.96, 0.97, 0.98, 0.80, 0.60, 0.40),
    (0.985, 0.985, 0.99, 0.90, 0.70, 0.50),
)
# Going on where a copy left off, for which one token more counts as agreeing. The first row with
# hazards of its own is the guess that one token was replaced. What some occurrences deny is right
# more often in place, and less often elsewhere. Coarse on purpose: what fits all recorded sets.
_IN_PLACE = (
    (0.10, 0.10, 0.10, 0.10, 0.10, 0.10),
    (0.10, 0.10, 0.10, 0.10, 0.10, 0.10),
    (0.36, 0.57, 0.77, 0.40, 0.25, 0.13),
    (0.50, 0.71, 0.82, 0.42, 0.25, 0.13),
    (0.61, 0.76, 0.88, 0.45, 0.26, 0.16),
    (0.69, 0.825, 0.92, 0.55, 0.31, 0.20),
    (0.765, 0.88, 0.945, 0.65, 0.36, 0.225),
    *_MATCHED[7:],
)
_ELSEWHERE = (
    (0.10, 0.10, 0.10, 0.10, 0.08, 0.08),
    (0.36, 0.57, 0.77, 0.40, 0.17, 0.10),
    (0.50, 0.71, 0.82, 0.42, 0.17, 0.10),
    (0.61, 0.76, 0.88, 0.45, 0.19, 0.12),
    (0.66, 0.80, 0.90, 0.50, 0.22, 0.16),
    (0.72, 0.85, 0.94, 0.60, 0.29, 0.16),
    (0.81, 0.91, 0.95, 0.70, 0.30, 0.20),
    (0.83, 0.94, 0.95, 0.70, 0.33, 0.24),
    (0.87, 0.95, 0.96, 0.70, 0.38, 0.29),
    (0.92, 0.96, 0.97, 0.80, 0.43, 0.33),
    (0.96, 0.97, 0.98, 0.80, 0.53, 0.33),
    (0.985, 0.985, 0.99, 0.90, 0.63, 0.43),
)
# What a document says next is less likely to be what the model says next, until much agrees: it may
# be about something else. Measured with documents of the topic and with others.
_QUOTED = (
    (0.05, 0.05, 0.05, 0.05, 0.05, 0.05),
    (0.14, 0.24, 0.50, 0.20, 0.12, 0.08),
    (0.42, 0.52, 0.62, 0.40, 0.21, 0.12),
    (0.58, 0.65, 0.75, 0.44, 0.23, 0.15),
    (0.65, 0.78, 0.85, 0.50, 0.27, 0.20),
    *_MATCHED[5:],
)
_QUOTED_IN_PLACE = (
    (0.05, 0.05, 0.05, 0.05, 0.05, 0.05),
    (0.05, 0.05, 0.05, 0.05, 0.05, 0.05),
    *_QUOTED[1:4],
    *_IN_PLACE[5:],
)
# A text that was announced goes on where it left off; the evidence is how its place was found
# (:mod:`maglio.draft.prediction`).
_PREDICTED = (
    (0.80, 0.45, 0.19, 0.19, 0.19, 0.19),
    (0.88, 0.50, 0.22, 0.22, 0.22, 0.22),
    (0.94, 0.55, 0.60, 0.60, 0.60, 0.60),
    (0.96, 0.60, 0.75, 0.75, 0.75, 0.75),
    (0.96, 0.72, 0.82, 0.82, 0.82, 0.82),
    (0.96, 0.82, 0.88, 0.88, 0.88, 0.88),
    (0.97, 0.86, 0.90, 0.90, 0.90, 0.90),
    (0.97, 0.90, 0.92, 0.92, 0.92, 0.92),
    (0.97, 0.94, 0.95, 0.95, 0.95, 0.95),
    *((0.98, 0.97, 0.97, 0.97, 0.97, 0.97),) * 3,
)
_RECYCLED = (0.25, 0.50, 0.60, 0.66, 0.70, 0.74, 0.76, 0.78, 0.78, 0.78, 0.78, 0.78)

PRIORS: dict[str, tuple[tuple[float, ...], ...]] = {
    "conversation in place": _IN_PLACE,
    "conversation": _ELSEWHERE,
    "reference in place": _QUOTED_IN_PLACE,
    "reference": _QUOTED,
    "history": _MATCHED,
    "prediction": _PREDICTED,
    "recycling": tuple((hazard,) * len(EVIDENCE) for hazard in _RECYCLED),
}
"""Hazards by row of agreement and by evidence, measured on recorded runs and conversations."""

_EDGES = (0, 1, 2, 3, 4, 6, 8, 12, 20, 40, 80)  # the last agreement of each row but the last
_ROW_OF = [sum(edge < agreed for edge in _EDGES) for agreed in range(_EDGES[-1] + 2)]
_BASE_OF = [row * len(EVIDENCE) for row in _ROW_OF]  # the first cell of each row
_SHIFT_RATE = 0.08
_MAX_SHIFT = 3.0
_KEPT_SHIFT = 0.5  # of a turn's shift at the start of the next one: it may be about something else
_PRIOR_WEIGHT = 12.0  # a cell's own counts outweigh the built-in table after this many tokens
_MEMORY = 256  # counts are halved here, so that a stream may change its mind


def row_of(agreed: int) -> int:
    """The row of the table for ``agreed`` tokens of agreement."""
    return _ROW_OF[min(agreed, len(_ROW_OF) - 1)]


class Forecast(NamedTuple):
    """What a source would draft.

    Attributes:
        tokens: what may come next.
        cells: for each token, where a calibration counts it.
    """

    tokens: list[int]
    cells: list[int]

    @classmethod
    def of(cls, agreed: int, tokens: list[int], evidence: bytes) -> Forecast:
        """A draft after ``agreed`` tokens of agreement, with a class of evidence per token."""
        last = len(_BASE_OF) - 1
        cells = [
            _BASE_OF[min(agreement, last)] + weight
            for agreement, weight in enumerate(evidence, start=agreed)
        ]
        return cls(tokens, cells)

    def first(self, n: int) -> Forecast:
        """Its first ``n`` tokens."""
        return Forecast(self.tokens[:n], self.cells[:n])


class Calibration:
    """Hazards of one source.

    Args:
        kind: the source's kind, which picks the built-in table.
    """

    __slots__ = ("_accepted", "_log_odds", "_shift", "_tried")

    def __init__(self, kind: str) -> None:
        self._log_odds = [log(p / (1.0 - p)) for row in PRIORS[kind] for p in row]
        self._shift = 0.0
        self._accepted = [0.0] * len(self._log_odds)
        self._tried = [0.0] * len(self._log_odds)

    def learn(self, forecast: Forecast, committed: Sequence[int]) -> None:
        """A forecast met what was committed.

        Tokens past the first difference, and past the end of what was committed, tell nothing.
        """
        for proposed, cell, token in zip(*forecast, committed, strict=False):
            accepted = proposed == token
            self._count(cell, accepted)
            if not accepted:
                break

    def begin_turn(self) -> None:
        """The next tokens answer another message."""
        self._shift *= _KEPT_SHIFT

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

    def hazard(self, cell: int) -> float:
        """The probability that a token is accepted if all before it are."""
        weighted = self._accepted[cell] + _PRIOR_WEIGHT * self._prior(cell)
        return weighted / (self._tried[cell] + _PRIOR_WEIGHT)


class Calibrations:
    """The calibrations of a model's sources, for stream after stream to go on with."""

    def __init__(self) -> None:
        self._of: dict[str, Calibration] = {}

    def of(self, kind: str) -> Calibration:
        """What was learnt about the sources of a kind."""
        found = self._of.get(kind)
        return self._of.setdefault(kind, Calibration(kind)) if found is None else found

    def all(self) -> Iterable[Calibration]:
        """All of them."""
        return tuple(self._of.values())
