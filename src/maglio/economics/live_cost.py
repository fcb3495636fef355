"""What forwards cost here and now: a table's shape, rescaled by timings. Decides nothing."""

from __future__ import annotations

from collections import deque
from math import isfinite
from statistics import median, median_low

from maglio.economics.cost import CostModel

ALPHA = 0.2
SCALE_RANGE = (0.25, 4.0)
PLAIN_EVERY = 32
"""After so many verify steps without a plain one, the plain step's time is too old; and after so
many plain steps without a verify step, what was learnt of those is."""


class LiveCost:
    """A cost model: a table times a multiplier, which follows what verify steps really take.

    The table alone knows how costs depend on rows, the timings alone know this machine, this
    model and this hour. A verify step's sample is its time over the time of a plain step, over
    the table's cost. The multiplier is an exponentially weighted moving average (weight 0.2) of
    samples clamped to [0.25, 4].

    Timings on a machine that does other things too have outliers on one side. So each quantity is
    a median of three before it is used: a lone outlier never gets through, a change does with the
    second sample. Plain steps become slower as the context grows, so their time is taken from the
    last three of them, and :attr:`wants_plain` asks for one when they are too rare.

    A multiplier that is too high would keep itself: nothing is drafted, so nothing is timed. So it
    moves back towards 1 by a fifth whenever 32 plain steps have come without a verify step.

    Without timings (:meth:`learn` is never called) the table alone applies.

    Args:
        table: costs by rows; the shape.
    """

    def __init__(self, table: CostModel) -> None:
        self._table = table
        self._multiplier = 1.0
        self._plain: deque[float] = deque(maxlen=3)
        self._samples: deque[float] = deque((1.0, 1.0), maxlen=3)  # as if the table had held twice
        self._since_plain = 0
        self._since_verify = 0
        self._prices: dict[int, float] = {}  # by rows, at the present multiplier

    @property
    def multiplier(self) -> float:
        """What the table's costs are multiplied with now."""
        return self._multiplier

    @property
    def plain_s(self) -> float | None:
        """Seconds of a plain step, or ``None`` before there were two: one could be anything."""
        return median_low(self._plain) if len(self._plain) > 1 else None

    @property
    def wants_plain(self) -> bool:
        """Whether the next step should be a plain one, for its time."""
        return self._since_plain >= PLAIN_EVERY or len(self._plain) == 1

    def cost(self, rows: int) -> float:
        """Cost of a forward of ``rows`` rows in plain steps, never under 1."""
        if rows == 1:
            return 1.0
        # Policies ask for many widths at every step, and the multiplier changes at a few of them.
        prices = self._prices  # another thread may put a new one in its place
        price = prices.get(rows)
        if price is None:
            price = prices[rows] = max(1.0, self._multiplier * self._table.cost(rows))
        return price

    def learn(self, rows: int, seconds: float) -> None:
        """A forward of ``rows`` rows took ``seconds``."""
        if not (isfinite(seconds) and seconds > 0.0):
            return
        if rows == 1:
            self._plain.append(seconds)
            self._since_plain = 0
            self._since_verify += 1
            if self._since_verify % PLAIN_EVERY == 0:
                self._move(1.0)
            return
        self._since_plain += 1
        self._since_verify = 0
        plain = self.plain_s
        if plain is not None:
            low, high = SCALE_RANGE
            ratio = seconds / plain / self._table.cost(rows)
            self._samples.append(min(max(ratio, low), high))
            self._move(median(self._samples))

    def _move(self, target: float) -> None:
        self._multiplier += ALPHA * (target - self._multiplier)
        self._prices = {}
