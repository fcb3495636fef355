"""Draft lengths against a search through all of them."""

from __future__ import annotations

from itertools import accumulate, product
from operator import mul

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio.economics.allot import allot, could_pay
from maglio.economics.cost import FLAT_COST, NATIVE_COST, CostCurve

MOST_ROWS = 4 + 4 * 4 + 8


class Table:
    """Costs without any order: it need not pay to have fewer rows."""

    def __init__(self, costs: list[float], shift: int = 0) -> None:
        self._costs = costs
        self._shift = shift

    def cost(self, rows: int) -> float:
        assert rows >= 1
        return self._costs[rows + self._shift - 1]

    def shifted(self, rows: int) -> Table:
        """What the same forward costs when so many rows are in it anyway."""
        return Table(self._costs, self._shift + rows)


hazards = st.one_of(st.floats(0.0, 1.0), st.sampled_from([0.0, 0.5, 1.0]))
drafts = st.lists(hazards, max_size=4)
batches = st.lists(drafts, min_size=1, max_size=4)
costs = st.one_of(
    st.lists(st.floats(0.01, 20.0), min_size=MOST_ROWS, max_size=MOST_ROWS),
    st.lists(st.sampled_from([1.0, 1.5, 2.0]), min_size=MOST_ROWS, max_size=MOST_ROWS),
    st.just([FLAT_COST.cost(rows) for rows in range(1, MOST_ROWS + 1)]),
    st.just([NATIVE_COST.cost(rows) for rows in range(1, MOST_ROWS + 1)]),
).map(Table)


def survivals(odds: list[float]) -> list[float]:
    return list(accumulate(odds, mul))


def gain(odds, lengths, cost, beside: int = 0) -> float:
    """Expected tokens over the cost of the forward."""
    expected = len(odds) + sum(
        sum(survivals(draft)[:length]) for draft, length in zip(odds, lengths, strict=True)
    )
    return expected / cost.cost(beside + len(odds) + sum(lengths))


def prefixes(odds) -> list[tuple[int, ...]]:
    """Lengths by taking all survival products in falling order, one after the other."""
    order = sorted(
        ((-p, place, stream) for stream, d in enumerate(odds) for place, p in enumerate(d)),
    )
    lengths = [0] * len(odds)
    found = [tuple(lengths)]
    for _, _, stream in order:
        lengths[stream] += 1
        found.append(tuple(lengths))
    return found


@settings(max_examples=300, deadline=None)
@given(odds=batches, cost=costs, beside=st.integers(0, 8))
def test_no_other_lengths_promise_more(odds, cost, beside):
    lengths = allot(odds, cost, beside=beside)
    assert len(lengths) == len(odds)
    assert all(0 <= k <= len(draft) for k, draft in zip(lengths, odds, strict=True))
    every = product(*(range(len(draft) + 1) for draft in odds))
    best = max(gain(odds, each, cost, beside) for each in every)
    assert gain(odds, lengths, cost, beside) == pytest.approx(best, rel=1e-12)


@settings(max_examples=300, deadline=None)
@given(odds=batches, cost=costs, beside=st.integers(0, 8))
def test_the_lengths_are_as_good_as_the_best_prefix_of_the_merged_order(odds, cost, beside):
    products = [survivals(draft) for draft in odds]
    best = max(gain(odds, each, cost, beside) for each in prefixes(products))
    found = gain(odds, allot(odds, cost, beside=beside), cost, beside)
    assert found == pytest.approx(best, rel=1e-12)


@given(odds=drafts, cost=costs)
def test_one_stream_gets_its_best_length_the_shortest_of_equals(odds, cost):
    gains, expected = [1.0 / cost.cost(1)], 1.0
    for k, survival in enumerate(survivals(odds), start=1):
        expected += survival
        gains.append(expected / cost.cost(1 + k))
    assert allot([odds], cost) == [gains.index(max(gains))]


@given(odds=batches, cost=costs, beside=st.integers(0, 8))
def test_rows_beside_count_in_the_cost_only(odds, cost, beside):
    assert allot(odds, cost, beside=beside) == allot(odds, cost.shifted(beside))


def test_rows_beside_can_make_a_draft_pay():
    # Alone a second row costs a step more; beside three others it comes nearly free.
    cost = CostCurve([(1, 1.0), (2, 2.0), (4, 3.0), (5, 3.1)])
    assert allot([[0.5]], cost) == [0]
    assert allot([[0.5]], cost, beside=3) == [1]


def test_the_likeliest_tokens_of_all_streams_are_taken():
    cost = CostCurve([(1, 1.0), (5, 1.0), (6, 100.0)])
    assert allot([[0.5, 0.9], [0.9, 0.9], []], cost) == [0, 2, 0]
    # 0.95 after 0.5 is a survival of 0.475: a token that needs luck before it waits.
    assert allot([[0.5, 0.95], [0.48], [0.1]], cost) == [1, 1, 0]


def test_nothing_to_draft_is_no_length_or_none():
    cost = CostCurve([(1, 1.0), (2, 1.0)])
    for beside in (0, 5):
        assert allot([], cost, beside=beside) == []
        assert allot([[]], cost, beside=beside) == [0]
        assert allot([[], (), []], cost, beside=beside) == [0, 0, 0]
    assert allot([[], [1.0], ()], cost) == [0, 1, 0]


def test_a_token_that_is_sure_to_be_rejected_is_never_drafted():
    free = CostCurve([(1, 1.0), (2, 1.0)])
    assert allot([[0.0, 1.0], [1.0, 0.0, 1.0]], free) == [0, 1]


@given(streams=st.integers(2, 20), cost=costs)
def test_where_no_draft_could_pay_none_of_good_odds_is_allotted(streams, cost):
    if not could_pay(streams, cost):
        odds = [[0.94] * 8, *([()] * (streams - 1))]
        assert sum(allot(odds, cost)) == 0


def test_drafts_stop_to_pay_where_rows_cost_as_much_as_streams():
    linear = CostCurve([(1, 1.0), (64, 64.0)])
    assert could_pay(1, linear)
    assert not could_pay(2, linear)
    flat = CostCurve([(1, 1.0), (64, 1.5)])
    assert could_pay(40, flat)
