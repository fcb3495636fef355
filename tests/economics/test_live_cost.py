"""Table times multiplier: what timings can change, and what they cannot."""

from __future__ import annotations

import math
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maglio.economics.cost import CostCurve
from maglio.economics.live_cost import LiveCost

TABLE = CostCurve([(1, 1.0), (3, 1.65), (5, 1.42), (9, 2.84), (17, 4.5)])


def timed(*plain: float) -> LiveCost:
    cost = LiveCost(TABLE)
    for seconds in plain:
        cost.learn(1, seconds)
    return cost


def test_without_timings_the_table_alone_applies():
    cost = LiveCost(TABLE)
    assert [cost.cost(rows) for rows in (1, 3, 4, 5, 9)] == [1.0, 1.65, 1.535, 1.42, 2.84]
    assert not cost.wants_plain


def test_drift_of_the_true_cost_is_learned_within_a_few_verifies():
    cost = timed(0.01, 0.01)
    for _ in range(8):
        cost.learn(5, 0.01 * 2 * 1.42)
    assert 1.7 < cost.multiplier < 2.0
    assert cost.cost(9) == pytest.approx(2.84 * cost.multiplier)  # one shape, rescaled


def test_a_bad_hour_is_forgotten_when_nothing_is_verified():
    cost = timed(0.01, 0.01)
    for _ in range(40):
        cost.learn(9, 0.01 * 4 * 2.84)
    assert cost.multiplier > 3.5
    for _ in range(31):
        cost.learn(1, 0.01)
    assert cost.multiplier > 3.5
    for _ in range(32 * 20):
        cost.learn(1, 0.01)
    assert cost.multiplier < 1.1


def test_one_absurd_sample_changes_nothing():
    cost = timed(0.01, 0.01)
    for sample in (1.42, 142.0, 1.42, 1.42):
        cost.learn(5, 0.01 * sample)
    assert cost.multiplier == pytest.approx(1.0)


def test_an_absurd_first_sample_changes_nothing():
    cost = timed(0.01, 0.01)
    cost.learn(5, 1.42)
    assert cost.multiplier == 1.0


@pytest.mark.parametrize("absurd", [0, 1, 2])
def test_one_absurd_plain_step_changes_nothing(absurd):
    cost = timed(*(1.0 if index == absurd else 0.01 for index in range(3)))
    assert cost.plain_s == 0.01


def test_one_plain_step_is_not_trusted_and_a_second_is_asked_for():
    cost = timed(1.0)
    assert cost.plain_s is None
    assert cost.wants_plain
    cost.learn(5, 0.0142)
    assert cost.multiplier == 1.0
    cost.learn(1, 0.01)
    assert cost.plain_s == 0.01
    assert not cost.wants_plain


def test_a_plain_step_is_asked_for_when_they_are_rare():
    cost = timed(0.01, 0.01)
    for _ in range(31):
        cost.learn(5, 0.0142)
    assert not cost.wants_plain
    cost.learn(5, 0.0142)
    assert cost.wants_plain
    cost.learn(1, 0.01)
    assert not cost.wants_plain


def test_plain_steps_that_grow_with_the_context_are_followed():
    cost = timed(0.01, 0.01)
    for step in range(400):
        seconds = 0.01 * (1 + step / 200)  # three times as slow in the end
        cost.learn(1 if cost.wants_plain else 5, seconds if cost.wants_plain else 1.42 * seconds)
    assert cost.plain_s == pytest.approx(0.03, rel=0.15)
    assert cost.multiplier == pytest.approx(1.0, abs=0.2)


def test_a_verify_never_costs_less_than_a_plain_step():
    cost = timed(1.0, 1.0)
    for _ in range(50):
        cost.learn(3, 0.001)
    assert cost.multiplier == pytest.approx(0.25, rel=0.01)
    assert cost.cost(3) == cost.cost(1) == 1.0


@given(st.lists(st.tuples(st.integers(1, 17), st.floats(allow_nan=True, allow_infinity=True))))
def test_no_timing_drives_the_multiplier_out_of_its_range(timings):
    cost = timed(0.01, 0.01)
    for rows, seconds in timings:
        before = cost.multiplier
        cost.learn(rows, seconds)
        assert 0.25 <= cost.multiplier <= 4.0
        assert abs(cost.multiplier - before) <= 0.2 * max(4.0 - before, before - 0.25) + 1e-12
        assert math.isfinite(cost.cost(rows))
        assert cost.cost(rows) >= 1.0


def test_threads_that_learn_at_once_leave_sound_costs():
    cost = timed(0.01, 0.01)
    errors = []

    def work(rows: int) -> None:
        try:
            for step in range(3000):
                cost.learn(rows if step % 3 else 1, 0.01 * rows)
                assert cost.cost(rows) >= 1.0
                assert cost.plain_s is not None
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(rows,)) for rows in (2, 5, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert 0.25 <= cost.multiplier <= 4.0
