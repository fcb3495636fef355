"""What a forward costs, as drafting policies see it: rows in, plain steps out. Measures nothing."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from maglio.errors import InvalidArgumentError

_TABULATED = 160
"""Rows up to which costs are looked up: as many as a forward is likely to have."""


class CostModel(Protocol):
    """The price of a forward. A live one may answer differently from step to step."""

    def cost(self, rows: int) -> float:
        """Cost of a forward of ``rows`` rows, in plain steps; ``rows`` is at least 1."""
        ...


@dataclass(frozen=True, slots=True)
class CostCurve:
    """A measured table of costs, linear between its points and beyond the last one.

    Attributes:
        points: ``(rows, plain steps)``, with rows increasing from 1 and costs of at least 1.

    Raises:
        InvalidArgumentError: the points are not such a table.
    """

    points: tuple[tuple[int, float], ...]
    _costs: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __init__(self, points: Iterable[tuple[int, float]]) -> None:
        object.__setattr__(self, "points", tuple((rows, float(cost)) for rows, cost in points))
        self._check()
        n = max(_TABULATED, self.points[-1][0])
        costs = (self._interpolated(rows) for rows in range(n + 1))
        object.__setattr__(self, "_costs", tuple(costs))

    def cost(self, rows: int) -> float:
        """Cost of a forward of ``rows`` rows, in plain steps, at least 1."""
        return self._costs[rows] if rows < len(self._costs) else self._interpolated(rows)

    def _check(self) -> None:
        rows = [r for r, _ in self.points]
        if len(rows) < 2:
            raise InvalidArgumentError(
                f"cost points are {self.points}; a table needs at least two, the first for 1 row"
            )
        if rows[0] != 1 or any(a >= b for a, b in pairwise(rows)):
            raise InvalidArgumentError(
                f"cost points are {self.points}; they must begin with 1 row and have increasing "
                "numbers of rows"
            )
        if not all(1.0 <= cost < float("inf") for _, cost in self.points):
            raise InvalidArgumentError(
                f"cost points are {self.points}; every cost must be finite and at least 1 plain "
                "step"
            )

    def _interpolated(self, rows: int) -> float:
        at = min(max(bisect_left(self.points, (rows,)), 1), len(self.points) - 1)
        (r0, c0), (r1, c1) = self.points[at - 1], self.points[at]
        return max(1.0, c0 + (c1 - c0) * (rows - r0) / (r1 - r0))


NATIVE_COST = CostCurve([(1, 1.0), (2, 1.26), (4, 1.35), (8, 1.83), (16, 3.39)])
"""The prototype of the native engine's kernels on two AVX-512 cores, a 0.6B model in 4 bits. What
policies are compared on; the engine itself does better by now."""

UNPROBED_NATIVE_COST = CostCurve(
    [(1, 1.0), (2, 1.05), (3, 1.1), (4, 1.2), (6, 1.35), (8, 1.7), (12, 2.3), (16, 3.2)]
)
"""The native engine on two AVX-512 cores, models of 0.1B to 0.6B, short contexts: what it is taken
to cost where nobody has measured it."""

LLAMA_CPP_COST = CostCurve([(1, 1.0), (2, 1.75), (3, 2.2), (4, 2.68), (8, 4.35), (16, 7.8)])
"""llama.cpp on two AVX-512 cores, SmolLM2-135M."""

FLAT_COST = CostCurve([(1, 1.0), (16, 1.1), (64, 1.4)])
"""A GPU that waits for memory: rows are nearly free."""

COST_CURVES = {"native": NATIVE_COST, "llama.cpp": LLAMA_CPP_COST, "flat": FLAT_COST}
"""The built-in curves by name."""
