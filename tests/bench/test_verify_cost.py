"""The probe measures ratios on a simulated clock, and catches rows that are not the plain ones."""

from __future__ import annotations

import numpy as np
import pytest

from maglio.economics.cost import NATIVE_COST
from maglio.economics.probe import (
    ContextCosts,
    Spread,
    VerifyCosts,
    conservative_break_even,
    measure,
    strict_break_even,
)
from maglio.errors import InvalidArgumentError
from support.clock import Clock, timed_engine


def test_costs_are_in_plain_steps_by_context_and_width():
    clock = Clock()
    engine = timed_engine(clock, lambda rows: 0.02 * NATIVE_COST.cost(rows))
    costs = measure(engine, contexts=(8, 100), drafts=(1, 3, 7, 15), repetitions=3, clock=clock)
    assert [at.context for at in costs.contexts] == [8, 100]
    for at in costs.contexts:
        assert at.plain_s.median == pytest.approx(0.02)
        assert [at.verify[k].median for k in (1, 3, 7, 15)] == pytest.approx(
            [1.26, 1.35, 1.83, 3.39]
        )
    assert costs.curve().points == tuple(
        (rows, pytest.approx(cost)) for rows, cost in NATIVE_COST.points
    )


def test_a_machine_that_slows_down_meanwhile_does_not_bend_the_curve():
    clock = Clock()
    pace = iter(np.linspace(1.0, 3.0, 200))
    engine = timed_engine(clock, lambda rows: next(pace) * NATIVE_COST.cost(rows))
    costs = measure(engine, contexts=(8,), drafts=(1, 3, 7), repetitions=9, clock=clock)
    assert [costs.cost(k) for k in (1, 3, 7)] == pytest.approx([1.26, 1.35, 1.83], rel=0.01)


def test_an_outlier_widens_nothing_but_itself():
    clock = Clock()
    steps = iter(range(10**6))
    engine = timed_engine(clock, lambda rows: 50.0 if next(steps) == 40 else 1.0 + rows / 10)
    costs = measure(engine, contexts=(8,), drafts=(1, 3), repetitions=9, clock=clock)
    assert costs.contexts[0].verify[1].median == pytest.approx(1.2 / 1.1)
    assert costs.contexts[0].verify[3].median == pytest.approx(1.4 / 1.1)


def test_rows_equal_to_the_plain_ones_are_counted():
    clock = Clock()
    engine = timed_engine(clock, lambda rows: 1.0)
    costs = measure(engine, contexts=(8, 16), drafts=(1, 4), repetitions=2, clock=clock)
    assert costs.rows_compared == costs.rows_equal == 2 * (2 + 5)
    assert costs.bitwise


def test_a_row_that_depends_on_the_batch_is_caught():
    clock = Clock()
    engine = timed_engine(clock, lambda rows: 1.0)
    exact = engine.forward

    def careless(batch):
        [rows] = exact(batch)
        if len(rows) == 5:
            rows[3, 7] = np.nextafter(rows[3, 7], np.float32(9))
        return [rows]

    engine.forward = careless
    costs = measure(engine, contexts=(8,), drafts=(1, 4), repetitions=2, clock=clock)
    assert (costs.rows_compared, costs.rows_equal) == (7, 6)
    assert not costs.bitwise


def test_the_cache_is_left_at_the_context_before_every_timing():
    clock = Clock()
    lengths = []
    engine = timed_engine(clock, lambda rows: 1.0)
    exact = engine.forward

    def watched(batch):
        lengths.append(batch[0].cache.length)
        return exact(batch)

    engine.forward = watched
    measure(engine, contexts=(8,), drafts=(1, 4), repetitions=3, clock=clock)
    prefill, plain, verifies, timed = lengths[:1], lengths[1:6], lengths[6:8], lengths[8:]
    assert prefill == [0]
    assert plain == [8, 9, 10, 11, 12]
    assert set(verifies) == set(timed) == {8}
    assert len(timed) == 3 * (1 + 2 * 2)


def test_progress_ends_at_its_total():
    clock = Clock()
    seen = []
    measure(
        timed_engine(clock, lambda rows: 1.0),
        contexts=(8, 16),
        drafts=(1,),
        repetitions=2,
        clock=clock,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(done, 6) for done in range(1, 7)]


def test_contexts_that_do_not_fit_are_left_out_and_none_is_an_error():
    clock = Clock()
    engine = timed_engine(clock, lambda rows: 1.0, n_ctx=20)
    costs = measure(engine, contexts=(8, 15, 16), drafts=(4,), repetitions=2, clock=clock)
    assert [at.context for at in costs.contexts] == [8, 15]
    with pytest.raises(InvalidArgumentError, match=r"no context of \[16\] tokens and 5 more .* 20"):
        measure(engine, contexts=(16,), drafts=(4,), repetitions=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"contexts": ()}, "contexts"),
        ({"contexts": (0,)}, "contexts"),
        ({"drafts": (2, 1)}, "drafts"),
        ({"drafts": (1, 1)}, "drafts"),
        ({"repetitions": 1}, "repetitions"),
    ],
)
def test_senseless_arguments_are_refused(arguments, message):
    with pytest.raises(InvalidArgumentError, match=message):
        measure(timed_engine(Clock(), lambda rows: 1.0), **arguments)


def test_break_even_is_what_makes_a_verify_worth_its_cost():
    # 16 tokens at 4.5 steps: 3.5 of them and the free one make 4.5.
    assert strict_break_even(16, 4.5) == 3.5 / 16
    assert conservative_break_even(16, 4.5) == 4.5 / 16


def test_the_curve_is_the_median_over_contexts_and_never_below_a_plain_step():
    def at(context, *costs):
        verify = {k: Spread(c, c, c) for k, c in zip((1, 2), costs, strict=True)}
        return ContextCosts(context, Spread(1, 1, 1), verify)

    costs = VerifyCosts((at(8, 0.9, 1.2), at(16, 0.95, 1.3), at(32, 2.0, 5.0)), 1, 1)
    assert costs.curve().points == ((1, 1.0), (2, 1.0), (3, 1.3))
