"""The record policy: when a source is muted, for how long, and that it misses nothing meanwhile."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio.draft.calibrated import CalibratedPolicy
from maglio.draft.cascade import Cascade
from maglio.draft.record import RecordOptions, RecordPolicy
from maglio.draft.source import Draft, Step
from maglio.economics.cost import FLAT_COST, NATIVE_COST
from maglio.economics.gate import CostGate, GateOptions
from maglio.errors import InvalidArgumentError
from support.cascades import plain, prompt, proposed, record_cascade, verified

NAME = "conversation"


def policy_of(**options) -> RecordPolicy:
    return RecordPolicy(RecordOptions(**options))


def judge(policy, drafted: int, accepted: int) -> None:
    """A draft was verified."""
    committed = range(accepted + 1)
    policy.learn(Step(committed, range(1 + drafted), Draft(range(drafted), NAME), accepted))


def commit(policy, n: int) -> None:
    policy.learn(plain(*range(n)))


def test_only_a_full_window_of_64_tokens_can_mute():
    policy = policy_of()
    judge(policy, 63, 0)
    assert not policy.muted(NAME)
    judge(policy, 1, 0)
    assert policy.muted(NAME)


@pytest.mark.parametrize(("accepted", "muted"), [(12, True), (13, False)])
def test_a_fifth_of_the_window_must_be_accepted(accepted, muted):
    policy = policy_of()
    judge(policy, 64, accepted)
    assert policy.muted(NAME) is muted


def test_the_window_rolls():
    policy = policy_of()
    judge(policy, 64, 64)
    judge(policy, 51, 0)
    assert not policy.muted(NAME)  # 13 of the latest 64
    judge(policy, 1, 0)
    assert policy.muted(NAME)


def test_a_mute_lasts_128_committed_tokens_and_ends_with_a_fresh_window():
    policy = policy_of()
    judge(policy, 64, 0)
    commit(policy, 127)
    assert policy.muted(NAME)
    policy.learn(prompt([1]))  # a given token counts like any other
    assert not policy.muted(NAME)
    judge(policy, 63, 0)
    assert not policy.muted(NAME)
    judge(policy, 1, 0)
    assert policy.muted(NAME)


def test_a_long_commit_ends_a_mute_for_good():
    policy = policy_of()
    judge(policy, 64, 0)
    commit(policy, 1000)
    assert not policy.muted(NAME)
    commit(policy, 1)
    assert not policy.muted(NAME)


def test_muting_can_be_switched_off():
    policy = policy_of(mute_for=0)
    judge(policy, 640, 0)
    assert not policy.muted(NAME)


def test_a_source_answers_for_its_own_drafts_only():
    policy = policy_of()
    judge(policy, 64, 0)
    assert policy.muted(NAME)
    assert not policy.muted("recycling")
    assert not policy.muted("reference:0")


def test_the_calibrated_policy_does_not_mute():
    policy = CalibratedPolicy(FLAT_COST)
    judge(policy, 640, 0)
    assert not policy.muted(NAME)


@pytest.mark.parametrize(("judged", "muted"), [(0, False), (3, False), (4, True)])
def test_only_what_was_tried_is_counted(judged, muted):
    source = record_cascade([1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2], window=4)
    draft = source.propose([], 6)
    assert list(draft.tokens) == [3, 4, 5, 6, 7, 8]
    tried = draft.first(judged) if judged else None
    source.observe(Step([9], [2, *draft.tokens[:judged]], tried, 0))
    assert source.parts()[NAME] is muted


def test_a_suggestion_that_was_followed_by_none_is_not_counted():
    source = record_cascade([1, 2, 3, 1, 2], window=4)
    for _ in range(9):
        assert proposed(source, 6)
    source.observe(plain(9))
    assert not source.parts()[NAME]


def test_drafts_shorter_than_the_minimum_are_not_made():
    stream = [1, 2, 3, 4, 1, 2]
    for min_draft, limit, made in ((2, 1, None), (2, 2, [3, 4]), (3, 2, None), (3, 3, [3, 4, 1])):
        source = record_cascade(stream, min_draft=min_draft)
        assert proposed(source, limit) == (None if made is None else (NAME, made))
    short = record_cascade([5, 6, 7, 8, 5], min_draft=2, conversation=False)
    short.observe(prompt([7]))  # 8 came next, then 5, 7 and 8
    assert proposed(short) == ("recycling", [8, 5, 7, 8, 5, 7, 8, 5])
    short.observe(prompt([9, 3, 9]))
    assert proposed(short, 2) == ("recycling", [3, 9])
    end = record_cascade(min_draft=2, recycling=False)
    end.add_reference([1, 2, 3])
    end.observe(prompt([1, 2]))
    assert proposed(end) is None  # the document has one more token
    assert RecordOptions().min_draft == 2


def test_its_lengths_follow_acceptance_by_the_gate():
    assert RecordPolicy().gate == GateOptions()
    assert GateOptions().adapts_budget


@pytest.mark.parametrize(
    "bad",
    [
        *(
            {name: value}
            for name in ("min_draft", "min_match", "budget_factor")
            for value in (0, 1.0, True)
        ),
        *({name: 0} for name in ("max_recycled", "window")),
        {"mute_for": -1},
        {"min_acceptance": 1.1},
    ],
)
def test_impossible_options_are_refused(bad):
    with pytest.raises(InvalidArgumentError, match=next(iter(bad))):
        RecordOptions(**bad)


def mute(source: Cascade, name: str) -> None:
    """Reject 16 drafts of 4 tokens each."""
    for fresh in range(100, 116):
        assert not source.parts()[name]
        source.observe(prompt([1, 2]))
        draft = source.propose([], 4)
        assert (draft.source, len(draft.tokens)) == (name, 4)
        source.observe(verified(draft, [fresh]))
    assert source.parts()[name]


def test_a_muted_source_leaves_drafting_to_the_others():
    source = record_cascade([1, 2, 3, 4, 5, 6, 7, 8, 9], recycling=False)
    mute(source, NAME)
    source.add_reference([1, 2, 3, 4])
    source.observe(prompt([1, 2]))
    assert proposed(source, 8) == ("reference:0", [3, 4])
    source.clear_references()
    assert proposed(source, 8) is None
    source.observe(prompt([50] * 125))  # two tokens were observed before
    source.observe(plain(1))
    assert not source.parts()[NAME]
    source.observe(plain(2))
    assert proposed(source, 1) == (NAME, [50])


def test_a_muted_reference_and_muted_recycling_draft_nothing():
    source = record_cascade(conversation=False)
    source.add_reference([1, 2, 3, 4, 5, 6, 7, 8, 9])
    mute(source, "reference:0")
    source.observe(prompt([1, 2]))
    name, draft = proposed(source, 4)
    assert (name, draft[0]) == ("recycling", 115)

    source = record_cascade([1, 2, 3, 1, 2, 3], conversation=False)
    mute(source, "recycling")
    source.observe(prompt([1, 2]))
    assert proposed(source, 4) is None


def test_clearing_references_drops_their_account_too():
    source = record_cascade(conversation=False)
    document = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    source.add_reference(document)
    mute(source, "reference:0")
    source.clear_references()
    assert source.add_reference(document) == "reference:0"
    mute(source, "reference:0")  # which begins unmuted, with an empty window


def test_clearing_references_drops_what_is_pending_of_them():
    source = record_cascade([1, 2], window=2)
    source.add_reference([1, 2, 3, 4])
    draft = source.propose([], 2)
    assert draft.source == "reference:0"
    source.clear_references()
    source.observe(verified(draft, [9]))
    source.observe(prompt([1, 2]))
    source.add_reference([1, 2, 3, 4])
    assert source.parts() == {NAME: False, "reference:0": False, "recycling": False}


def test_clearing_references_keeps_the_account_of_others():
    source = record_cascade([1, 2, 3, 4, 5, 6, 7, 8, 9], recycling=False)
    mute(source, NAME)
    source.clear_references()
    assert source.parts() == {NAME: True}


def steps():
    return st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), min_size=30, max_size=60)


def drive(source: Cascade, twin: Cascade, stream) -> int:
    """Run both over the stream, and return how often a member of the first was muted."""
    source.add_reference([0, 1, 2, 3, 4, 0, 1, 3])
    twin.add_reference([0, 1, 2, 3, 4, 0, 1, 3])
    mutes = 0
    for number, committed in enumerate(stream):
        draft, free = source.propose([], 2), twin.propose([], 2)
        muted = any(source.parts().values())
        mutes += muted
        if not muted:
            assert draft == free
        rows = np.array([[(number + i) % 5, i] for i in range(len(committed))], dtype=np.int32)
        for each, judged in ((source, draft), (twin, free)):
            step = plain(*committed) if judged is None else verified(judged, committed)
            each.observe(Step(committed, committed, step.draft, step.accepted, rows))
        assert source.match_lengths() == twin.match_lengths()
        assert source.recycling.draft(8) == twin.recycling.draft(8)
    return mutes


def pair_of_cascades() -> tuple[Cascade, Cascade]:
    return (
        record_cascade(n_vocab=5, window=4, min_acceptance=0.5, mute_for=5),
        record_cascade(n_vocab=5, mute_for=0),
    )


@settings(max_examples=60, deadline=None)
@given(steps())
def test_a_muted_source_stays_in_step_with_one_that_never_was(stream):
    drive(*pair_of_cascades(), stream)


def test_that_claim_is_not_vacuous():
    rng = np.random.default_rng(1)
    stream = [rng.integers(0, 5, size=2).tolist() for _ in range(40)] + [[1, 2]] * 30
    assert 10 < drive(*pair_of_cascades(), stream) < 50


def test_a_gate_never_asks_for_less_than_the_policy_drafts():
    options = RecordOptions(min_draft=5)
    gate = CostGate(NATIVE_COST, options=RecordPolicy(options).gate)
    for _ in range(3):
        gate.record(rows=6, committed=3)
    gate.record(rows=17, committed=1)
    assert gate.state == "on"
    assert gate.budget(16) >= 5
