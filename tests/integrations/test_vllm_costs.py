"""Prices of vLLM's steps, by rows and by the size of the batch."""

from __future__ import annotations

import pytest

from maglio.economics.cost import CostCurve
from maglio.integrations.vllm.costs import BatchCost

CURVE = CostCurve([(1, 1.0), (9, 1.8), (17, 3.4)])


def prepared(requests: int) -> BatchCost:
    cost = BatchCost(CURVE)
    cost.prepare(requests)
    return cost


def test_alone_a_request_pays_what_the_table_says():
    cost = prepared(1)
    for rows in (1, 2, 9, 17):
        assert cost.cost(rows) == pytest.approx(CURVE.cost(rows))
        assert cost.share.cost(rows) == pytest.approx(CURVE.cost(rows))


def test_a_draft_pays_for_the_time_of_all_requests():
    cost = prepared(9)
    assert cost.share.cost(1) == 1.0
    longer = CURVE.cost(9 + 4) / CURVE.cost(9)
    assert cost.share.cost(5) == pytest.approx(1.0 + 9 * (longer - 1.0))


def test_timings_of_one_size_of_batch_say_nothing_of_others():
    cost = prepared(4)
    for _ in range(40):
        cost.learn(4, CURVE.cost(4))
        cost.learn(8, 2.0 * CURVE.cost(8))
    assert cost.cost(8) == pytest.approx(2.0 * CURVE.cost(8), rel=0.05)
    assert cost.cost(4) == CURVE.cost(4)
    cost.prepare(6)  # of the same size
    assert cost.cost(8) == pytest.approx(2.0 * CURVE.cost(8), rel=0.05)
    for other in (1, 3, 8):
        cost.prepare(other)
        assert cost.cost(other + 4) == pytest.approx(CURVE.cost(other + 4))


def test_no_verify_step_is_cheaper_than_a_plain_one():
    cost = prepared(9)
    for _ in range(60):
        cost.learn(9, 8.0)
        cost.learn(10, 1.0)
    assert cost.cost(10) == CURVE.cost(9)
    assert cost.share.cost(2) == 1.0


def test_a_plain_step_is_asked_for_when_its_time_is_old():
    cost = prepared(2)
    for _ in range(3):
        cost.learn(2, 1.0)
    asked = 0
    for _ in range(40):
        asked += cost.wants_plain
        cost.learn(6, 2.0)
    assert 0 < asked < 10
