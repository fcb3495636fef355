"""Which member drafts, how much, and how the cascade follows the stream."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio._core import FrozenAutomaton
from maglio.draft import cascade as module
from maglio.draft import conversation
from maglio.draft.cascade import Cascade
from maglio.draft.conversation import ConversationMember
from maglio.draft.record import RecordPolicy
from maglio.draft.source import Draft, DraftSource, Step
from maglio.errors import InvalidArgumentError
from support.cascades import plain, prompt, proposed, record_cascade, verified

LONG = list(range(100, 160))


def test_it_fills_every_seam_of_a_source():
    policy = RecordPolicy()
    source = Cascade(1000, policy, recycling=True)
    assert isinstance(source, DraftSource)
    assert source.topk == 8
    assert source.gate is policy.gate
    assert list(source.parts().items()) == [("conversation", False), ("recycling", False)]


def test_the_longest_match_drafts():
    source = record_cascade([1, 2, 3, 9, 7, 1, 2, 3])
    source.add_reference([2, 3, 50, 51])
    assert proposed(source, 1) == ("conversation", [9])
    source.add_reference([7, 1, 2, 3, 60, 61])
    assert proposed(source, 1) == ("reference:1", [60])
    source.add_reference([9, 7, 1, 2, 3, 70])
    assert proposed(source, 1) == ("reference:2", [70])


def test_a_tie_goes_to_the_conversation():
    source = record_cascade([1, 2, 9, 1, 2])
    source.add_reference([1, 2, 50])
    assert source.match_lengths() == {"conversation": 2, "reference:0": 2}
    assert proposed(source, 1) == ("conversation", [9])


def test_a_tie_between_references_goes_to_the_first():
    source = record_cascade([1, 2])
    source.add_reference([1, 2, 50])
    source.add_reference([1, 2, 60])
    assert proposed(source, 1) == ("reference:0", [50])


@pytest.mark.parametrize("match", [2, 3, 5])
def test_a_match_is_worth_two_tokens_for_each_of_its_own_and_two_more(match):
    source = record_cascade()
    source.add_reference([*range(1, 6), *LONG])
    source.observe(prompt(range(6 - match, 6)))
    assert proposed(source) == ("reference:0", LONG[: 2 * (1 + match)])
    own = record_cascade([*range(1, 6), *LONG, 7, *range(6 - match, 6)])
    assert proposed(own) == ("conversation", LONG[: 2 * (1 + match)])


def test_a_limit_cuts_every_draft():
    source = record_cascade([1, 2, *LONG, 1, 2])
    assert proposed(source, 3) == ("conversation", LONG[:3])
    assert proposed(source, 0) is None
    source.observe(plain(100, 1, 101, 1))
    assert proposed(source, 3) == ("recycling", [101, 1, 101])


def test_a_match_of_one_token_falls_to_recycling():
    source = record_cascade([1, 2, 3, 1])
    assert source.match_lengths() == {"conversation": 1}
    assert proposed(source, 2) == ("recycling", [2, 3])
    assert proposed(record_cascade([1, 2, 3, 1], min_match=1), 2) == ("conversation", [2, 3])
    longer = record_cascade([1, 2, 9, 1, 2], min_match=3)
    assert proposed(longer, 1) == ("recycling", [9])


def test_short_matches_are_no_evidence():
    alone = record_cascade([1, 2, 3, 1], recycling=False)
    assert (alone.match_lengths(), proposed(alone, 8)) == ({"conversation": 1}, None)
    eager = record_cascade([1, 2, 3, 1], recycling=False, min_match=1)
    assert proposed(eager, 8) == ("conversation", [2, 3, 1, 2])


def test_recycling_drafts_at_most_eight_tokens():
    assert proposed(record_cascade([5, 5])) == ("recycling", [5] * 8)
    assert proposed(record_cascade([5, 5], max_recycled=3)) == ("recycling", [5] * 3)


def test_a_token_that_was_never_seen_drafts_nothing():
    assert proposed(record_cascade([1, 2, 1, 2, 3]), 16) is None
    assert proposed(record_cascade(), 16) is None


def test_verified_rows_are_recycled():
    source = record_cascade([1, 2])
    assert source.topk == 8
    # The last row followed a draft token that was rejected: it is as good as the others.
    top = np.array([[7, 8], [9, 1], [11, 3]], dtype=np.int32)
    source.observe(Step([7, 9], fed=[2, 7, 50], draft=Draft([7, 50]), accepted=1, top=top))
    assert source.recycling.topk_of(2) == [7, 8]
    source.observe(plain(2))
    assert proposed(source, 2) == ("recycling", [7, 9])
    source.observe(plain(50))
    assert proposed(source, 1) == ("recycling", [11])


def test_sources_can_be_switched_off():
    off = record_cascade([1, 2, 1], recycling=False)
    assert (off.topk, off.recycling, proposed(off, 4)) == (0, None, None)
    off.observe(Step([7], fed=[1], top=np.array([[5]], dtype=np.int32)))
    assert list(off.parts()) == ["conversation"]
    assert list(record_cascade(conversation=False).parts()) == ["recycling"]


def test_pairs_can_be_switched_off():
    stream = [1, 2, 3, 4, 9, 2, 5, 1, 2]
    assert proposed(record_cascade(stream, conversation=False), 1) == ("recycling", [3])
    without = record_cascade(stream, conversation=False, pair_slots=0)
    assert proposed(without, 1) == ("recycling", [5])


def test_a_step_reaches_the_policy_when_the_members_have_followed_it():
    heard = []

    class Listening(RecordPolicy):
        def learn(self, step):
            heard.append((step, source.match_lengths()))

    source = Cascade(1000, Listening())
    steps = [prompt([1, 2, 3, 1]), plain(2), verified(Draft([3, 4], "conversation"), [3, 1])]
    for step in steps:
        source.observe(step)
    assert [step for step, _ in heard] == steps
    assert [lengths["conversation"] for _, lengths in heard] == [1, 2, 4]


tokens = st.lists(st.integers(0, 3), max_size=30)


@settings(max_examples=150, deadline=None)
@given(document=st.lists(st.integers(0, 3), min_size=1, max_size=20), early=tokens, late=tokens)
def test_a_reference_that_joins_late_is_where_one_from_the_start_is(document, early, late):
    first, second = record_cascade(conversation=False), record_cascade(conversation=False)
    first.add_reference(document)
    for source in (first, second):
        source.observe(prompt(early))
    second.add_reference(document)
    for token in late:
        assert first.match_lengths() == second.match_lengths()
        assert proposed(first, 6) == proposed(second, 6)
        first.observe(plain(token))
        second.observe(plain(token))
    assert first.match_lengths() == second.match_lengths()


def test_what_is_kept_to_catch_up_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "CATCH_UP_TOKENS", 8)
    source = record_cascade()
    for token in range(100):
        source.observe(plain(token))
        assert len(source._stream) <= 16
    source.add_reference(range(100))
    source.observe(plain(100))
    source.clear_references()
    source.add_reference(range(200))
    assert 8 <= source.match_lengths()["reference:0"] <= 17


def test_an_index_that_was_built_before_serves_as_reference():
    built = FrozenAutomaton(np.array([1, 2, 3], dtype=np.int32))
    first, second = record_cascade([1, 2]), record_cascade([7, 1])
    for source in (first, second):
        source.add_reference(built)
    assert proposed(first) == ("reference:0", [3])
    assert second.match_lengths()["reference:0"] == 1


def test_references_are_numbered_unless_they_are_named():
    source = record_cascade()
    names = [source.add_reference([1, 2]), source.add_reference([3], name="reference:notes")]
    names.append(source.add_reference([4, 5]))
    assert names == ["reference:0", "reference:notes", "reference:1"]
    assert list(source.parts()) == ["conversation", *names, "recycling"]
    source.clear_references()
    assert list(source.parts()) == ["conversation", "recycling"]
    assert source.add_reference([1, 2]) == "reference:0"


@pytest.mark.parametrize("bad", [[], [1, 1000], [-1], [1.5], np.array([[1]]), [2**40]])
def test_a_bad_reference_changes_nothing(bad):
    source = record_cascade([1, 2])
    with pytest.raises(InvalidArgumentError):
        source.add_reference(bad)
    assert list(source.parts()) == ["conversation", "recycling"]


def test_an_index_of_another_vocabulary_is_refused():
    with pytest.raises(InvalidArgumentError, match="1000, outside the vocabulary"):
        record_cascade().add_reference(FrozenAutomaton(np.array([1000, 2], dtype=np.int32)))


def test_a_history_of_another_vocabulary_is_left_out():
    for last, expected in ((9, ["history"]), (10, [])):
        index = FrozenAutomaton(np.array([1, last], dtype=np.int32))
        source = Cascade(10, RecordPolicy(), conversation=False, history=index)
        assert list(source.parts()) == expected


@pytest.mark.parametrize("recycling", [True, False])
@pytest.mark.parametrize("bad", [[3, 1000], [3, -1], [1.5], [2**31], [[1, 2]]])
def test_a_bad_commit_changes_nothing(bad, recycling):
    source = record_cascade([1, 2, 9, 1, 2], recycling=recycling, window=1, min_acceptance=1.0)
    top = np.full((1, 8), 77, dtype=np.int32)
    with pytest.raises(InvalidArgumentError, match="tokens"):
        source.observe(Step(bad, [2], Draft([8], "conversation"), 0, top))
    assert source.match_lengths() == {"conversation": 2}
    assert not source.parts()["conversation"]  # the policy did not hear of it: that would mute
    assert proposed(source, 1) == ("conversation", [9])
    if recycling:
        assert source.recycling.topk_of(2) == [9]


@pytest.mark.parametrize("bad", [{"pair_slots": 3}, {"pair_slots": -1}, {"token_cap": 1}])
def test_impossible_options_are_refused(bad):
    with pytest.raises(InvalidArgumentError):
        Cascade(10, RecordPolicy(), recycling=True, **bad)


@pytest.mark.parametrize("token_cap", [3, 2**40, 8.0])
def test_a_conversation_must_have_room_for_tokens(token_cap):
    with pytest.raises(InvalidArgumentError, match="token_cap"):
        ConversationMember(token_cap=token_cap)


def test_a_conversation_without_memory_drafts_nothing_and_stops_nobody(monkeypatch):
    class Starved:
        match_length = 0

        def __init__(self, *, token_cap):
            pass

        def extend(self, tokens):
            raise MemoryError

    monkeypatch.setattr(conversation, "SuffixAutomaton", Starved)
    source = record_cascade([1, 2, 9, 1, 2])
    assert source.match_lengths() == {"conversation": 0}
    assert proposed(source, 1) == ("recycling", [9])


def test_a_rewound_index_is_one_that_never_saw_the_rest():
    document = [7, 8, 9, 10, 11, 12] * 3
    history = FrozenAutomaton(np.array([1, 2, 20, 9, 10, 21], dtype=np.int32))
    sources = [Cascade(60, RecordPolicy(), history=history) for _ in range(2)]
    for source in sources:
        source.add_reference(document)
    rewound, fresh = sources
    rewound.observe(prompt([1, 2, 3, 4, 7, 8, 1, 2]))
    assert proposed(rewound, 9) == ("conversation", [3, 4, 7, 8, 1, 2])
    rewound.observe(plain(5, 5, 5, 5))
    rewound.rewind([1, 2, 3, 4, 7, 8])
    fresh.observe(prompt([1, 2, 3, 4, 7, 8]))
    for token in (9, 10, 1, 2):
        assert proposed(rewound, 9) == proposed(fresh, 9)
        assert rewound.match_lengths() == fresh.match_lengths()
        for source in sources:
            source.observe(plain(token))
    for source in sources:
        # What joins now catches up with the stream that was kept, not with what was before it.
        source.add_reference([5, 5, 1, 2, 3, 4, 7, 8, 9, 10, 1, 2, 30])
    assert rewound.match_lengths() == fresh.match_lengths()
    assert rewound.match_lengths()["reference:1"] == 10


def test_recycling_does_not_learn_that_the_rest_followed():
    source = record_cascade(n_vocab=60)
    source.observe(prompt([1, 2, 3, 4]))
    source.rewind([1, 2])
    source.observe(plain(9))
    assert source.recycling.topk_of(4) == []
    assert source.recycling.topk_of(2)[0] == 9
