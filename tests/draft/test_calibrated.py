"""The calibrated policy: it learns what is accepted, and drafts as much as pays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio.draft.calibrated import CalibratedPolicy
from maglio.draft.calibration import (
    EVIDENCE,
    PRIORS,
    Calibration,
    Calibrations,
    Forecast,
    row_of,
)
from maglio.draft.cascade import Cascade
from maglio.draft.member import kind_of
from maglio.draft.registry import Setting, calibrated
from maglio.draft.source import Draft, Step
from maglio.economics.allot import allot
from maglio.economics.cost import FLAT_COST, CostCurve
from maglio.economics.gate import CALIBRATED_GATE
from maglio.errors import InvalidArgumentError
from support.cascades import plain, prompt, proposed, verified

FREE = CostCurve([(1, 1.0), (100, 1.0)])
DEAR = CostCurve([(1, 1.0), (2, 3.0)])
DOCUMENT = list(range(10, 90))
REFERENCE = "reference:0"
IN_PLACE = "reference in place"


def cascade_of(policy: CalibratedPolicy, *, n_vocab: int = 1000, **members) -> Cascade:
    source = Cascade(n_vocab, policy, **{"recycling": True, **members})
    if n_vocab > max(DOCUMENT):
        source.add_reference(DOCUMENT)
    return source


def length_of(source: Cascade, cost, limit: int) -> int:
    """How many tokens of its draft are verified when nothing else is in the forward."""
    draft = source.propose([], limit)
    if draft is None:
        return 0
    assert len(draft.odds) == len(draft.tokens) <= limit
    return allot([draft.odds], cost)[0]


def forecast(agreed: int, tokens, evidence=None) -> Forecast:
    return Forecast.of(agreed, list(tokens), bytes(len(tokens)) if evidence is None else evidence)


def hazard(calibration: Calibration, agreed: int, evidence: int = 0) -> float:
    return calibration.hazard(forecast(agreed, [1], bytes([evidence])).cells[0])


def hazards_in_document(match: int, n: int) -> list[float]:
    """What a document promises at first: from the third token on, it is copied in order."""
    kind, agreed = ("reference", match) if match < 3 else ("reference in place", 1 + match)
    return [PRIORS[kind][row_of(agreed + j)][0] for j in range(n)]


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
    source = cascade_of(CalibratedPolicy(cost))
    source.observe(prompt(DOCUMENT[:match]))
    hazards = hazards_in_document(match, limit)
    gains = [1.05]  # a plain step, and what a draft has to gain on it
    for k in range(1, limit + 1):
        expected, p = 1.0, 1.0
        for j in range(k):
            p *= hazards[j]
            expected += p
        gains.append(expected / cost.cost(1 + k))
    assert length_of(source, cost, limit) == gains.index(max(gains))


def test_a_draft_comes_with_the_odds_of_its_tokens():
    source = cascade_of(CalibratedPolicy(FREE))
    source.observe(prompt(DOCUMENT[:3]))
    odds = source.propose([], 4).odds
    assert odds == pytest.approx(hazards_in_document(3, 4))


def test_a_draft_must_gain_the_margin():
    # At a match of 2, one draft token is accepted with 0.42: 1.42 tokens for 1.36 steps.
    cost = CostCurve([(1, 1.0), (2, 1.36), (3, 9.0)])
    for margin, drafted in ((0.05, 0), (0.04, 1)):
        source = cascade_of(CalibratedPolicy(cost, margin=margin))
        source.observe(prompt(DOCUMENT[:2]))
        assert length_of(source, cost, 8) == drafted


def test_a_dear_forward_drafts_nothing_and_a_free_one_everything():
    for cost, drafted in ((DEAR, 0), (FREE, 16)):
        source = cascade_of(CalibratedPolicy(cost))
        source.observe(prompt(DOCUMENT[:5]))
        assert length_of(source, cost, 16) == drafted


def test_a_cost_that_changes_is_asked_at_every_step():
    class Live:
        curve = FREE

        def cost(self, rows: int) -> float:
            return self.curve.cost(rows)

    live = Live()
    source = cascade_of(CalibratedPolicy(live))
    source.observe(prompt(DOCUMENT[:5]))
    assert proposed(source, 4) == (REFERENCE, DOCUMENT[5:9])
    live.curve = DEAR
    assert proposed(source, 4) is None


def test_a_source_is_learnt_about_while_it_does_not_draft():
    policy = CalibratedPolicy(DEAR)
    source = cascade_of(policy)
    source.observe(prompt(DOCUMENT[:3]))
    assert proposed(source, 8) is None
    calibration = policy._calibration(REFERENCE, IN_PLACE)
    before = hazard(calibration, 4)
    for _ in range(40):
        assert proposed(source, 8) is None
        source.observe(plain(DOCUMENT[3]))
        source.observe(prompt([1, *DOCUMENT[:3]]))
    assert hazard(calibration, 4) > max(0.85, before)
    assert sum(calibration._tried) == 40


def test_a_source_that_is_always_wrong_stops_drafting():
    source = cascade_of(CalibratedPolicy(FLAT_COST), conversation=False, recycling=False)
    drafts = []
    for _ in range(60):
        for token in DOCUMENT[:3]:
            source.observe(plain(token))
        draft = source.propose([], 8)
        source.observe(plain(1) if draft is None else verified(draft, [1]))
        drafts.append(draft)
    assert drafts[0] is not None
    assert drafts[-10:] == [None] * 10


def test_half_of_what_shifts_a_turn_is_forgotten_at_the_next_prompt():
    policy = CalibratedPolicy(FREE)
    source = cascade_of(policy)
    source.observe(prompt([DOCUMENT[0]]))
    for token in DOCUMENT[1:20]:
        source.propose([], 1)
        source.observe(plain(token))
    calibration = policy._calibration(REFERENCE, "reference")
    shift = calibration._shift
    assert shift > 0
    draft = source.propose([], 1)
    source.observe(verified(draft, DOCUMENT[20:22]))  # accepted, with a bonus token: no prompt
    assert calibration._shift >= shift
    shift = calibration._shift
    counts = calibration._tried.copy()
    source.observe(prompt([1]))  # one token can be a prompt too
    assert calibration._shift == shift / 2
    assert calibration._tried == counts


def test_the_first_prompt_of_a_stream_forgets_nothing():
    calibrations = Calibrations()
    calibrations.of("conversation")._shift = 1.0
    source = Cascade(50, CalibratedPolicy(FREE, calibrations=calibrations))
    source.observe(prompt([1, 2, 3]))
    source.observe(prompt([4, 5, 6]))
    assert calibrations.of("conversation")._shift == 1.0
    source.propose([], 4)
    source.observe(prompt([7, 8, 9]))
    assert calibrations.of("conversation")._shift == 0.5


def test_a_prompt_after_an_interrupted_step_begins_a_turn():
    policy = CalibratedPolicy(FREE)
    source = cascade_of(policy)
    source.observe(prompt(DOCUMENT[:5]))
    calibration = policy._calibration(REFERENCE, "reference")
    calibration._shift = 1.0
    assert source.propose([], 8) is not None
    source.observe(prompt([1, 2, 3]))  # the forward never happened
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
    policies = [CalibratedPolicy(FREE, calibrations=calibrations) for _ in range(2)]
    for policy in policies:
        source = cascade_of(policy)
        source.observe(prompt(DOCUMENT[:3]))
        source.propose([], 1)
        source.observe(plain(DOCUMENT[3]))
    assert tried(calibrations.of(IN_PLACE), 4) == (2, 2)
    for name in ("conversation", "recycling", "reference:0", "reference:1"):
        kind = kind_of(name)
        assert policies[0]._calibration(name, kind) is policies[1]._calibration(name, kind)
    assert calibrations.of("conversation") is not calibrations.of("recycling")
    alone = CalibratedPolicy(FREE)
    assert alone._calibration("conversation", "conversation") is not calibrations.of("conversation")


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
    policy = CalibratedPolicy(FREE)
    source = cascade_of(policy)
    source.observe(prompt(DOCUMENT[:3]))
    draft = source.propose([], 8)
    source.observe(prompt(DOCUMENT[3:9]))  # the draft was lost, and its tokens were given
    calibration = policy._calibration(REFERENCE, IN_PLACE)
    assert sum(calibration._tried) == 0
    draft = source.propose([], 8)
    source.observe(verified(draft, DOCUMENT[9:17]).first(1))
    assert sum(calibration._tried) == 1


def test_new_references_start_from_the_built_in_table():
    policy = CalibratedPolicy(FREE)
    source = cascade_of(policy)
    for _ in range(50):
        source.observe(prompt(DOCUMENT[:3]))
        source.propose([], 8)
        source.observe(plain(1))
    assert sum(policy._calibration(REFERENCE, IN_PLACE)._tried) > 0
    source.clear_references()
    source.add_reference(DOCUMENT)
    calibration = policy._calibration(REFERENCE, IN_PLACE)
    assert sum(calibration._tried) == calibration._shift == 0


def test_recycling_drafts_only_where_not_one_token_matches():
    source = cascade_of(CalibratedPolicy(FREE))
    source.observe(prompt([500, 3]))
    # Of three rows, two follow draft tokens that were rejected.
    top = np.repeat(np.array([[500], [701], [600]], dtype=np.int32), 8, axis=1)
    draft = Draft([700, 500], "recycling")
    source.observe(Step([500], [3, 700, 500], draft, 0, top))
    assert source.recycling.topk_of(500)[0] == 600
    assert proposed(source, 1) == ("conversation", [3])
    source.observe(plain(700))
    assert proposed(source, 1) == ("recycling", [701])


def test_a_longer_match_that_promises_less_does_not_draft():
    policy = CalibratedPolicy(FREE)
    source = cascade_of(policy)
    source.observe(prompt([DOCUMENT[2], 500, *DOCUMENT[:3]]))
    assert proposed(source, 1) == (REFERENCE, [DOCUMENT[3]])
    for _ in range(200):
        policy._calibration(REFERENCE, IN_PLACE).learn(forecast(4, [1]), [2])
    assert proposed(source, 1) == ("conversation", [500])


def test_the_recycled_draft_keeps_its_cap():
    for options, cap in (({}, 8), ({"max_recycled": 3}, 3)):
        policy = CalibratedPolicy(FREE, **options)
        source = cascade_of(policy, n_vocab=9, conversation=False)
        source.observe(prompt([5]))
        source.observe(Step([5], [5], top=np.full((1, 8), 5, dtype=np.int32)))
        assert length_of(source, FREE, 16) == cap


def test_its_lengths_are_its_own():
    assert CalibratedPolicy(FREE).gate is CALIBRATED_GATE
    assert not CALIBRATED_GATE.adapts_budget


@pytest.mark.parametrize(
    "bad", [{"margin": -0.1}, {"margin": 1.1}, {"max_recycled": 0}, {"max_recycled": 1.0}]
)
def test_impossible_options_are_refused(bad):
    with pytest.raises(InvalidArgumentError, match=next(iter(bad))):
        CalibratedPolicy(FREE, **bad)


def test_the_margin_of_the_registry_is_the_policys():
    setting = Setting(n_vocab=1000, cost=CostCurve([(1, 1.0), (2, 1.36), (3, 9.0)]))
    for margin, drafts in ((0.05, False), (0.04, True)):
        source = calibrated(margin=margin)(setting)
        source.add_reference(DOCUMENT)
        source.observe(prompt(DOCUMENT[:2]))
        assert (source.propose([], 8) is not None) is drafts
