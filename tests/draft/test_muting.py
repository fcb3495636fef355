"""When a source is muted, for how long, and that it misses nothing meanwhile."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio.draft.cascade import SpeculationIndex
from maglio.draft.member import Member
from maglio.draft.options import IndexOptions


class Silent:
    match_length = 0

    def draft(self, limit):
        return []


def member(**options) -> Member:
    return Member("conversation", Silent(), lambda tokens: None, IndexOptions(**options))


def commit(source, n):
    source.observe(np.zeros(n, dtype=np.int32))


def test_only_a_full_window_of_64_tokens_can_mute():
    source = member()
    source.judge(63, 0)
    assert not source.muted
    source.judge(1, 0)
    assert source.muted


@pytest.mark.parametrize(("accepted", "muted"), [(12, True), (13, False)])
def test_a_fifth_of_the_window_must_be_accepted(accepted, muted):
    source = member()
    source.judge(64, accepted)
    assert source.muted is muted


def test_the_window_rolls():
    source = member()
    source.judge(64, 64)
    source.judge(51, 0)
    assert not source.muted  # 13 of the latest 64
    source.judge(1, 0)
    assert source.muted


def test_a_mute_lasts_128_committed_tokens_and_ends_with_a_fresh_window():
    source = member()
    source.judge(64, 0)
    commit(source, 127)
    assert source.muted
    commit(source, 1)
    assert not source.muted
    source.judge(63, 0)
    assert not source.muted
    source.judge(1, 0)
    assert source.muted


def test_a_long_commit_ends_a_mute_for_good():
    source = member()
    source.judge(64, 0)
    commit(source, 1000)
    assert not source.muted


def test_muting_can_be_switched_off():
    source = member(mute_for=0)
    source.judge(640, 0)
    assert not source.muted


def test_the_calibrated_policy_does_not_mute():
    source = member(policy="calibrated")
    source.judge(640, 0)
    assert not source.muted


def mute(index: SpeculationIndex, name: str) -> None:
    """Reject 16 drafts of 4 tokens each."""
    for fresh in range(100, 116):
        assert not index.counts()[name].muted
        index.observe([1, 2])
        assert len(index.suggest([], 4)) == 4
        assert index.drafted_by == name
        index.observe([fresh])
    assert index.counts()[name].muted


def test_a_muted_source_leaves_drafting_to_the_others():
    index = SpeculationIndex(1000, options=IndexOptions(recycling=False))
    index.observe([1, 2, 3, 4, 5, 6, 7, 8, 9])
    mute(index, "conversation")
    index.add_reference([1, 2, 3, 4])
    index.observe([1, 2])
    assert index.suggest([], 8) == [3, 4]
    assert index.drafted_by == "reference:0"
    index.clear_references()
    assert index.suggest([], 8) == []
    index.observe([50] * 125)  # two tokens were observed before
    index.observe([1])
    assert not index.counts()["conversation"].muted
    index.observe([2])
    assert index.suggest([], 1) == [50]


def test_a_muted_reference_and_muted_recycling_draft_nothing():
    options = IndexOptions(conversation=False)
    index = SpeculationIndex(1000, options=options)
    index.add_reference([1, 2, 3, 4, 5, 6, 7, 8, 9])
    mute(index, "reference:0")
    index.observe([1, 2])
    assert index.drafted_by == "reference:0"
    assert index.suggest([], 4)[0] == 115
    assert index.drafted_by == "recycling"

    index = SpeculationIndex(1000, options=options)
    index.observe([1, 2, 3, 1, 2, 3])
    mute(index, "recycling")
    index.observe([1, 2])
    assert index.suggest([], 4) == []


def steps():
    return st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), min_size=30, max_size=60)


def drive(index: SpeculationIndex, twin: SpeculationIndex, stream) -> int:
    """Run both over the stream, and return how often a source of the first was muted."""
    index.add_reference([0, 1, 2, 3, 4, 0, 1, 3])
    twin.add_reference([0, 1, 2, 3, 4, 0, 1, 3])
    mutes = 0
    for number, committed in enumerate(stream):
        draft, free = index.suggest([], 2), twin.suggest([], 2)
        muted = [name for name, counts in index.counts().items() if counts.muted]
        mutes += bool(muted)
        if not muted:
            assert draft == free
            assert index.drafted_by == twin.drafted_by or not draft
        rows = np.array([[(number + i) % 5, i] for i in range(len(committed))], dtype=np.int32)
        for each in (index, twin):
            each.observe_topk(committed, rows)
            each.observe(committed)
        assert index.match_lengths() == twin.match_lengths()
        assert index.recycling.draft(8) == twin.recycling.draft(8)
    return mutes


def pair_of_indexes():
    options = IndexOptions(window=4, min_acceptance=0.5, mute_for=5)
    return (
        SpeculationIndex(5, options=options),
        SpeculationIndex(5, options=IndexOptions(mute_for=0)),
    )


@settings(max_examples=60, deadline=None)
@given(steps())
def test_a_muted_source_stays_in_step_with_one_that_never_was(stream):
    drive(*pair_of_indexes(), stream)


def test_that_claim_is_not_vacuous():
    rng = np.random.default_rng(1)
    stream = [rng.integers(0, 5, size=2).tolist() for _ in range(40)] + [[1, 2]] * 30
    assert 10 < drive(*pair_of_indexes(), stream) < 50
