"""Growth curves: points put together by what grows and what is measured.

Boundary: numbers; draws nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from maglio.bench.field.line import GrowthPoint

_POWERS = {"O(1)": 0.0, "O(n)": 1.0, "O(n²)": 2.0}


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a curve.

    Attributes:
        name: empty for the only one.
        expected: the order of growth that it should have.
        points: by what grows, ascending.
    """

    name: str
    expected: str
    points: tuple[GrowthPoint, ...]

    @property
    def expected_power(self) -> float | None:
        """Of what grows; ``None`` where the expected order is no power of it."""
        return _POWERS.get(self.expected)

    @property
    def power(self) -> float | None:
        """The power of what grows that leads from the first point to the last."""
        first, last = self.points[0], self.points[-1]
        if not (0.0 < first.x < last.x and first.value > 0.0 and last.value > 0.0):
            return None
        return math.log(last.value / first.value) / math.log(last.x / first.x)

    def at(self, x: float) -> GrowthPoint | None:
        """The point there, if there is one."""
        return next((point for point in self.points if point.x == x), None)


@dataclass(frozen=True, slots=True)
class Curve:
    """What is measured while something grows.

    Attributes:
        name: what is measured.
        x_name: what grows.
        unit: of what is measured.
        series: the lines.
    """

    name: str
    x_name: str
    unit: str
    series: tuple[Series, ...]

    @property
    def places(self) -> list[float]:
        """All values of what grows, ascending."""
        return sorted({point.x for series in self.series for point in series.points})


def curves_of(points: Iterable[GrowthPoint]) -> list[Curve]:
    """Put points together; of two in one place the later counts."""
    found: dict[str, dict[str, dict[float, GrowthPoint]]] = {}
    for point in points:
        found.setdefault(point.curve, {}).setdefault(point.series, {})[point.x] = point
    return [_curve(name, lines) for name, lines in found.items()]


def _curve(name: str, lines: Mapping[str, Mapping[float, GrowthPoint]]) -> Curve:
    series = []
    for label, by_x in lines.items():
        points = tuple(by_x[x] for x in sorted(by_x))
        series.append(Series(label, points[0].expected, points))
    one = series[0].points[0]
    return Curve(name, one.x_name, one.unit, tuple(series))
