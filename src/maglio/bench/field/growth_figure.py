"""A growth curve as a picture: both axes logarithmic, each line beside the order it should have.

Boundary: a curve to SVG without styles. Colours come from the page, by the classes ``line-0`` and
on, so that a picture follows a light or dark page; markers differ in shape too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from maglio.bench.field.curve import Curve, Series
from maglio.bench.field.line import GrowthPoint
from maglio.bench.field.words import amount

WIDTH, HEIGHT = 400.0, 260.0
LEFT, RIGHT, TOP, BOTTOM = 56.0, 14.0, 10.0, 44.0
LINES = 4
"""So many lines have colours and markers of their own; later ones begin again."""

_LEAST_SPAN = math.log(4.0)
"""A range of less than 1 to 4 is widened to it, so that what hardly grows looks so."""
_MOST_TICKS = 7


def growth_figure(curve: Curve) -> str:
    """The picture; empty if no point can stand on logarithmic axes."""
    points = [point for series in curve.series for point in _drawn(series)]
    if not points:
        return ""
    frame = _Frame(points)
    label = f"{curve.name} by {curve.x_name}, both axes logarithmic; the numbers are in the table"
    parts = [
        f'<svg class="growth" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" '
        f'aria-label="{escape(label)}">',
        *frame.axes(curve),
        *(part for i, series in enumerate(curve.series) for part in _line(series, i, frame)),
        "</svg>",
    ]
    return "".join(parts)


def marker(number: int, x: float = 5.0, y: float = 5.0) -> str:
    """The marker of a line at a place of a picture."""
    kind = f'class="mark line-{number % LINES}"'
    if number % LINES == 0:
        return f'<circle {kind} cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>'
    corners = {
        1: ((-3.2, -3.2), (3.2, -3.2), (3.2, 3.2), (-3.2, 3.2)),
        2: ((0.0, -4.6), (4.6, 0.0), (0.0, 4.6), (-4.6, 0.0)),
        3: ((0.0, -4.2), (4.2, 3.4), (-4.2, 3.4)),
    }[number % LINES]
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return f'<polygon {kind} points="{points}"/>'


class _Frame:
    """Where a value stands in the picture."""

    def __init__(self, points: Sequence[GrowthPoint]) -> None:
        self._places = sorted({point.x for point in points})
        xs = [math.log(place) for place in self._places]
        ys = [math.log(value) for point in points for value in (point.low, point.high)]
        self._x = _widened(xs[0], xs[-1], 0.0)
        self._y = _widened(min(ys), max(ys), _LEAST_SPAN)

    def x(self, value: float) -> float:
        """Pixels from the left."""
        low, high = self._x
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log(value) - low) / (high - low)

    def y(self, value: float) -> float:
        """Pixels from the top."""
        low, high = self._y
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (math.log(value) - low) / (high - low)

    def axes(self, curve: Curve) -> Iterator[str]:
        """Grid, ticks and names."""
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        for value in _ticks(*self._y):
            y = self.y(value)
            yield f'<line class="grid" x1="{LEFT:g}" y1="{y:.1f}" x2="{right:g}" y2="{y:.1f}"/>'
            yield f'<text x="{LEFT - 6:g}" y="{y + 4:.1f}" text-anchor="end">{value:,.6g}</text>'
        for value in self._places[-_MOST_TICKS:]:
            x = self.x(value)
            end = bottom + 4
            yield (
                f'<line class="grid" x1="{x:.1f}" y1="{bottom:g}" x2="{x:.1f}" y2="{end:g}"/>'
                f'<text x="{x:.1f}" y="{bottom + 17:g}" text-anchor="middle">{amount(value)}</text>'
            )
        middle = (LEFT + right) / 2
        yield (
            f'<text class="axis" x="{middle:g}" y="{HEIGHT - 6:g}" text-anchor="middle">'
            f"{escape(curve.x_name)}</text>"
        )

    def clipped(self, x1: float, y1: float, x2: float, power: float) -> tuple[float, float]:
        """The end, at most at ``x2``, of a line of some power that stays in the frame."""
        end = math.log(x2)
        if power:
            edge = self._y[1] if power > 0 else self._y[0]
            end = min(end, math.log(x1) + (edge - math.log(y1)) / power)
        return math.exp(end), y1 * math.exp(power * (end - math.log(x1)))


def _widened(low: float, high: float, least: float) -> tuple[float, float]:
    span = max(high - low, least, 1e-9)
    middle, half = (low + high) / 2, 0.54 * span
    return middle - half, middle + half


def _ticks(low: float, high: float) -> list[float]:
    """Round values, as many as there is room for."""
    decades = range(math.floor(low / math.log(10.0)), math.ceil(high / math.log(10.0)) + 1)
    for steps in ((1, 1.5, 2, 3, 4, 5, 7), (1, 2, 5), (1, 3), (1,)):
        values = [step * 10.0**decade for decade in decades for step in steps]
        inside = [value for value in values if low <= math.log(value) <= high]
        if len(inside) <= _MOST_TICKS:
            return inside
    return inside[:: -(-len(inside) // _MOST_TICKS)]


def _drawn(series: Series) -> list[GrowthPoint]:
    """The points that can stand on logarithmic axes."""
    return [p for p in series.points if min(p.x, p.low, p.value, p.high) > 0.0]


def _line(series: Series, number: int, frame: _Frame) -> Iterator[str]:
    points = _drawn(series)
    if not points:
        return
    kind = f"line-{number % LINES}"
    first, last = points[0], points[-1]
    power = series.expected_power
    if power is not None and len(points) > 1:
        x, y = frame.clipped(first.x, first.value, last.x, power)
        yield (
            f'<line class="expected {kind}" x1="{frame.x(first.x):.1f}" '
            f'y1="{frame.y(first.value):.1f}" x2="{frame.x(x):.1f}" y2="{frame.y(y):.1f}"/>'
        )
    path = " ".join(f"{frame.x(p.x):.1f},{frame.y(p.value):.1f}" for p in points)
    yield f'<polyline class="line {kind}" points="{path}"/>'
    for p in points:
        x = frame.x(p.x)
        yield (
            f'<line class="spread {kind}" x1="{x:.1f}" y1="{frame.y(p.low):.1f}" '
            f'x2="{x:.1f}" y2="{frame.y(p.high):.1f}"/>{marker(number, x, frame.y(p.value))}'
        )
