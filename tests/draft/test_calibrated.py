"""The calibrated policy: it learns what is accepted, and drafts as much as pays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio.draft.calibration import (
    EVIDENCE,
    PRIORS,
    Calibration,
    Calibrations,
    Forecast,
    row_of,
)
from maglio.draft.cascade import SpeculationIndex
from maglio.draft.options import IndexOptions
from maglio.economics.cost import COST_CURVES, FLAT_COST, CostCurve

FREE = CostCurve([(1, 1.0), (100, 1.0)])
DEAR = CostCurve([(1, 1.0), (2, 3.0)])
DOCUMENT = list(range(10, 90))


def index(cost, **options) -> SpeculationIndex:
    source = SpeculationIndex(1000, options=IndexOptions(policy="calibrated", cost=cost, **options))
    source.add_reference(DOCUMENT)
    return source


def forecast(agreed: int, tokens, evidence=None) -> Forecast:
    return Forecast.of(agreed, list(tokens), bytes(len(tokens)) if evidence is None else evidence)


def hazard(calibration: Calibration, agreed: int, evidence: int = 0) -> float:
    return calibration.hazards(forecast(agreed, [1], bytes([evidence])))[0]


def tried(calibration: Calibration, agreed: int) -> tuple[float, float]:
    cell = row_of(agreed) * len(EVIDENCE)
    return calibration._tried[cell], calibration._accepted[cell]


def test_the_built_in_tables_rise_with_agreement_and_have_a_place_for_every_length():
    for table in PRIORS.values():
        assert len(table) == row_of(10**6) + 1
        for column in zip(*table, strict=True):
            assert list(column) == sorted(column)
            assert all(0.0 < p < 1.0 for p in column)
        assert all(len(row) == len(EVIDENCE) for row in table)
    assert [row_of(n) for n in (0, 1, 2, 3, 4, 5, 6, 7)] == [0, 1, 2, 3, 4, 5, 5, 6]


def test_contexts_that_were_always_followed_so_promise_more_than_those_that_were_not():
    once, again, always, mostly, sometimes, seldom = range(6)
    for row in PRIORS["conversation"][1:]:
        assert row[always] >= row[again] >= row[once] > row[sometimes] > row[seldom]
        assert row[again] > row[mostly] > row[sometimes]


costs = st.lists(st.floats(0.0, 0.5), min_size=2, max_size=17).map(
    lambda steps: CostCurve([(1, 1.0), *((2 + i, 1.0 + sum(steps[: i + 1])) for i in range(16))])
)


@settings(max_examples=80, deadline=None)
@given(cost=costs, match=st.integers(2, 30), limit=st.integers(1, 16))
def test_the_draft_has_the_length_with_the_most_expected_tokens_for_its_cost(cost, match, limit):
    source = index(cost)
    source.observe(DOCUMENT[:match])
    hazards = [PRIORS["reference"][row_of(match + j)][0] for j in range(limit)]
    gains = [1.05]  # a plain step, and what a draft has to gain on it
    for k in range(1, limit + 1):
        expected, p = 1.0, 1.0
        for j in range(k):
            p *= hazards[j]
            expected += p
        gains.append(expected / cost.cost(1 + k))
    assert len(source.suggest([], limit)) == gains.index(max(gains))


def test_a_draft_must_gain_the_margin():
    # At a match of 2, one draft token is accepted with 0.42: 1.42 tokens for 1.36 steps.
    cost = CostCurve([(1, 1.0), (2, 1.36), (3, 9.0)])
    for margin, drafted in ((0.05, 0), (0.04, 1)):
        source = index(cost, margin=margin)
        source.observe(DOCUMENT[:2])
        assert len(source.suggest([], 8)) == drafted


def test_a_dear_forward_drafts_nothing_and_a_free_one_everything():
    for cost, drafted in ((DEAR, 0), (FREE, 16)):
        source = index(cost)
        source.observe(DOCUMENT[:5])
        assert len(source.suggest([], 16)) == drafted


def test_a_cost_that_changes_is_asked_at_every_step():
    class Live:
        curve = FREE

        def cost(self, rows: int) -> float:
            return self.curve.cost(rows)

    live = Live()
    source = index(live)
    source.observe(DOCUMENT[:5])
    assert source.suggest([], 4)
    live.curve = DEAR
    assert not source.suggest([], 4)


def test_a_source_is_learnt_about_while_it_does_not_draft():
    source = index(DEAR)
    calibration = source._references[0].calibration
    source.observe(DOCUMENT[:3])
    before = hazard(calibration, 3)
    for _ in range(40):
        assert source.suggest([], 8) == []
        source.observe([DOCUMENT[3]])
        source.observe([1, *DOCUMENT[:3]])
    assert hazard(calibration, 3) > max(0.85, before)
    source.suggest([], 8)
    source.observe([1])
    assert source.counts()["reference:0"].drafted == 0


def test_a_source_that_is_always_wrong_stops_drafting():
    source = index(FLAT_COST, conversation=False, recycling=False)
    drafts = []
    for _ in range(60):
        for token in DOCUMENT[:3]:
            source.observe([token])
        drafts.append(source.suggest([], 8))
        source.observe([1])
    assert drafts[0]
    assert not any(drafts[-10:])


def test_half_of_what_shifts_a_turn_is_forgotten_at_the_next_prompt():
    source = index(FREE)
    calibration = source._references[0].calibration
    source.observe([DOCUMENT[0]])
    for token in DOCUMENT[1:20]:
        source.suggest([], 1)
        source.observe([token])
    shift = calibration._shift
    assert shift > 0
    source.suggest([], 1)
    source.observe(DOCUMENT[20:22])  # drafted and accepted, with a bonus token: no prompt
    assert calibration._shift >= shift
    shift = calibration._shift
    counts = calibration._tried.copy()
    source.observe([1, 2, 3])
    assert calibration._shift == shift / 2
    assert calibration._tried == counts


def test_the_first_prompt_of_a_stream_forgets_nothing():
    calibrations = Calibrations()
    calibrations.of("conversation")._shift = 1.0
    options = IndexOptions(policy="calibrated", cost=FREE)
    source = SpeculationIndex(50, options=options, calibrations=calibrations)
    source.observe([1, 2, 3])
    source.observe([4, 5, 6])
    assert calibrations.of("conversation")._shift == 1.0
    source.suggest([], 4)
    source.observe([7, 8, 9])
    assert calibrations.of("conversation")._shift == 0.5


def test_a_prompt_after_an_interrupted_step_begins_a_turn():
    source = index(FREE)
    calibration = source._references[0].calibration
    source.observe(DOCUMENT[:5])
    calibration._shift = 1.0
    assert source.suggest([], 8)
    source.truncate_pending(0)  # the forward never happened
    source.observe([1, 2, 3])
    assert calibration._shift == 0.5


def test_only_positions_up_to_the_first_rejection_are_evidence():
    calibration = Calibration("conversation")
    calibration.learn(forecast(2, [7, 8, 9, 9]), [7, 8, 1, 1])
    assert [tried(calibration, n) for n in (2, 3, 4)] == [(1, 1), (1, 1), (1, 0)]
    assert sum(calibration._tried) == 3


def test_what_was_not_committed_is_no_evidence():
    calibration = Calibration("conversation")
    calibration.learn(forecast(2, [7, 8, 9]), [7])
    calibration.learn(forecast(2, [7, 8, 9]), [])
    assert sum(calibration._tried) == 1


def test_what_is_learnt_stays_with_its_evidence():
    calibration = Calibration("conversation")
    for _ in range(100):
        calibration.learn(forecast(2, [1], bytes([5])), [1])
        calibration.learn(forecast(2, [1], bytes([2])), [2])
    assert hazard(calibration, 2, 5) > 0.8
    assert hazard(calibration, 2, 2) < 0.2


def test_calibrations_are_kept_by_kind_and_go_on_in_the_next_stream():
    calibrations = Calibrations()
    options = IndexOptions(policy="calibrated", cost=FREE)
    streams = [SpeculationIndex(50, options=options, calibrations=calibrations) for _ in range(2)]
    members = [{m.name: m for m in stream._members()} for stream in streams]
    for name in ("conversation", "recycling"):
        assert members[0][name].calibration is members[1][name].calibration
    assert calibrations.of("conversation") is not calibrations.of("recycling")
    alone = SpeculationIndex(50, options=options)
    assert alone._conversation.calibration is not calibrations.of("conversation")


def test_evidence_in_one_cell_shifts_the_others():
    calibration = Calibration("conversation")
    for _ in range(30):
        calibration.learn(forecast(2, [1]), [2])
    assert hazard(calibration, 4) < PRIORS["conversation"][row_of(4)][0] - 0.1
    assert hazard(calibration, 2) < 0.15


def test_a_stream_may_change_its_mind():
    calibration = Calibration("conversation")
    for _ in range(5000):
        calibration.learn(forecast(2, [1]), [1])
    assert hazard(calibration, 2) > 0.95
    for _ in range(300):
        calibration.learn(forecast(2, [1]), [2])
    assert hazard(calibration, 2) < 0.3


def test_what_was_never_tried_is_not_learnt():
    source = index(FREE)
    source.observe(DOCUMENT[:3])
    source.suggest([], 8)
    source.truncate_pending(1)
    source.observe(DOCUMENT[3:9])
    assert sum(source._references[0].calibration._tried) == 1


def test_new_references_start_from_the_built_in_table():
    source = index(FREE)
    for _ in range(50):
        source.observe(DOCUMENT[:3])
        source.suggest([], 8)
        source.observe([1])
    source.clear_references()
    source.add_reference(DOCUMENT)
    calibration = source._references[0].calibration
    assert sum(calibration._tried) == calibration._shift == 0


def rows(source, token, best) -> None:
    """A verify step computed a row after a draft token that was then rejected."""
    source.observe_topk([token], np.full((1, 8), best, dtype=np.int32))


def test_recycling_drafts_only_where_not_one_token_matches():
    source = index(FREE)
    source.observe([500, 3, 500])
    rows(source, 500, 600)
    rows(source, 700, 701)
    assert source.suggest([], 1) == [3]
    assert source.drafted_by == "conversation"
    source.observe([700])
    assert source.suggest([], 1) == [701]
    assert source.drafted_by == "recycling"


def test_a_longer_match_that_promises_less_does_not_draft():
    source = index(FREE)
    source.observe([DOCUMENT[2], 500, *DOCUMENT[:3]])
    assert source.suggest([], 1) == [DOCUMENT[3]]
    for _ in range(200):
        source._references[0].calibration.learn(forecast(3, [1]), [2])
    assert source.suggest([], 1) == [500]
    assert source.drafted_by == "conversation"


def test_the_recycled_draft_keeps_its_cap():
    source = SpeculationIndex(9, options=IndexOptions(policy="calibrated", cost=FREE))
    rows(source, 5, 5)
    source.observe([5])
    assert len(source.suggest([], 16)) == 8


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
    with pytest.raises(ValueError, match="cost points"):
        CostCurve(points)
