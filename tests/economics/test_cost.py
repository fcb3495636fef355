"""Tables of costs by rows."""

from __future__ import annotations

import pytest

from maglio.economics.cost import COST_CURVES, CostCurve
from maglio.errors import InvalidArgumentError


def test_curves_are_linear_between_their_points_and_go_on_behind_the_last():
    curve = CostCurve([(1, 1.0), (3, 2.0), (5, 2.5)])
    assert [curve.cost(n) for n in range(1, 8)] == [1.0, 1.5, 2.0, 2.25, 2.5, 2.75, 3.0]
    assert CostCurve([(1, 1.5), (2, 1.0)]).cost(9) == 1.0
    native = COST_CURVES["native"]
    assert [native.cost(n) for n in (1, 2, 4, 8, 16)] == [1.0, 1.26, 1.35, 1.83, 3.39]
    llama = COST_CURVES["llama.cpp"]
    assert [llama.cost(n) for n in (2, 3, 4, 8, 16)] == [1.75, 2.2, 2.68, 4.35, 7.8]


@pytest.mark.parametrize(
    "points",
    [[], [(1, 1.0)], [(2, 1.0), (3, 2.0)], [(1, 1.0), (1, 2.0)], [(1, 0.5), (2, 1.0)]]
    + [[(1, 1.0), (2, float(bad))] for bad in ("nan", "inf")],
)
def test_a_table_that_is_no_curve_is_refused(points):
    with pytest.raises(InvalidArgumentError, match="cost points"):
        CostCurve(points)


@pytest.mark.parametrize("points", [[], [(1, 1.0)]])
def test_a_table_of_no_shape_says_how_many_points_it_needs(points):
    with pytest.raises(InvalidArgumentError, match="at least two"):
        CostCurve(points)
