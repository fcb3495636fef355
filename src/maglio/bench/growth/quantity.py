"""What is measured along a growth curve, and points of it.

Boundary: samples to a point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from maglio.bench.field.line import GrowthPoint
from maglio.economics.probe import Spread

Wanted = Callable[[str, str, float], bool]
"""Whether a point is still to be measured: its curve, its series, and what grows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """What is measured.

    Attributes:
        curve: name of the curve.
        x_name: what grows.
        unit: of what is measured.
        expected: the order of growth of each series, by its name; a name is empty where there is
            one series alone.
    """

    curve: str
    x_name: str
    unit: str
    expected: dict[str, str]

    def point(self, x: float, samples: Sequence[float], *, series: str = "") -> GrowthPoint:
        """A point: the median of the samples, between their quartiles."""
        spread = Spread.of(samples)
        return GrowthPoint(
            curve=self.curve,
            x=x,
            x_name=self.x_name,
            contestant=None,
            series=series,
            value=spread.median,
            low=spread.low,
            high=spread.high,
            unit=self.unit,
            expected=self.expected[series],
        )

    def is_wanted(self, x: float, wanted: Wanted) -> bool:
        """Whether a point of any series is still to be measured there."""
        return any(wanted(self.curve, series, x) for series in self.expected)
