"""Which source drafts, how much, and how the account is kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio.draft import cascade
from maglio.draft.cascade import FrozenAutomaton, SpeculationIndex
from maglio.draft.options import IndexOptions
from maglio.draft.source import (
    DraftSource,
    LabelsDrafts,
    ObservesTopK,
    SourceCounts,
    TruncatesPending,
)
from maglio.errors import InvalidArgumentError

LONG = list(range(100, 160))


def index(observed=(), **options) -> SpeculationIndex:
    made = SpeculationIndex(1000, options=IndexOptions(**options))
    made.observe(list(observed))
    return made


def suggested(source: SpeculationIndex, limit: int = 99) -> tuple[str, list[int]]:
    draft = list(source.suggest([], limit))
    return source.drafted_by, draft


def test_it_fills_every_seam_of_a_source():
    source = index()
    typed: DraftSource = source
    assert isinstance(typed, ObservesTopK)
    assert isinstance(typed, LabelsDrafts)
    assert isinstance(typed, TruncatesPending)
    assert list(source.counts()) == ["conversation", "recycling"]


def test_the_longest_match_drafts():
    source = index([1, 2, 3, 9, 7, 1, 2, 3])
    source.add_reference([2, 3, 50, 51])
    assert suggested(source, 1) == ("conversation", [9])
    source.add_reference([7, 1, 2, 3, 60, 61])
    assert suggested(source, 1) == ("reference:1", [60])
    source.add_reference([9, 7, 1, 2, 3, 70])
    assert suggested(source, 1) == ("reference:2", [70])


def test_a_tie_goes_to_the_conversation():
    source = index([1, 2, 9, 1, 2])
    source.add_reference([1, 2, 50])
    assert source.match_lengths() == {"conversation": 2, "reference:0": 2}
    assert suggested(source, 1) == ("conversation", [9])


def test_a_tie_between_references_goes_to_the_first():
    source = index([1, 2])
    source.add_reference([1, 2, 50])
    source.add_reference([1, 2, 60])
    assert suggested(source, 1) == ("reference:0", [50])


@pytest.mark.parametrize("match", [2, 3, 5])
def test_a_match_is_worth_two_tokens_for_each_of_its_own_and_two_more(match):
    source = index()
    source.add_reference([*range(1, 6), *LONG])
    source.observe(range(6 - match, 6))
    assert suggested(source) == ("reference:0", LONG[: 2 * (1 + match)])
    conversation = index([*range(1, 6), *LONG, 7, *range(6 - match, 6)])
    assert suggested(conversation) == ("conversation", LONG[: 2 * (1 + match)])


def test_a_limit_cuts_every_draft():
    source = index([1, 2, *LONG, 1, 2])
    assert suggested(source, 3) == ("conversation", LONG[:3])
    assert suggested(source, 0)[1] == []
    source.observe([100, 1, 101, 1])
    assert len(suggested(source, 3)[1]) == 3


def test_a_match_of_one_token_falls_to_recycling():
    source = index([1, 2, 3, 1])
    assert source.match_lengths() == {"conversation": 1}
    assert suggested(source, 2) == ("recycling", [2, 3])
    assert suggested(index([1, 2, 3, 1], min_match=1), 2) == ("conversation", [2, 3])
    assert suggested(index([1, 2, 9, 1, 2], min_match=3), 1) == ("recycling", [9])


def test_recycling_drafts_at_most_eight_tokens():
    assert suggested(index([5, 5]))[1] == [5] * 8
    assert len(suggested(index([5, 5], max_recycled=3))[1]) == 3


def test_a_token_that_was_never_seen_drafts_nothing():
    assert index([1, 2, 1, 2, 3]).suggest([], 16) == []
    assert index().suggest([], 16) == []


def test_verified_rows_are_recycled():
    source = index([1, 2])
    assert source.topk == 8
    source.observe_topk([2, 7], np.array([[7, 8], [9, 1]], dtype=np.int32))
    assert suggested(source, 2) == ("recycling", [7, 9])


def test_sources_can_be_switched_off():
    off = index([1, 2, 1], recycling=False)
    assert (off.topk, off.recycling, off.suggest([], 4)) == (0, None, [])
    off.observe_topk([1], np.array([[5]], dtype=np.int32))
    assert list(off.counts()) == ["conversation"]
    assert list(index(conversation=False).counts()) == ["recycling"]


def test_pairs_can_be_switched_off():
    stream = [1, 2, 3, 4, 9, 2, 5, 1, 2]
    assert suggested(index(stream, conversation=False), 1)[1] == [3]
    assert suggested(index(stream, conversation=False, pair_slots=0), 1)[1] == [5]


def test_accepted_is_what_draft_and_commit_share():
    source = index([1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2])
    source.suggest([], 6)
    assert source.counts()["conversation"] == SourceCounts(0, 0)
    source.observe([3, 4, 99])
    assert source.counts()["conversation"] == SourceCounts(6, 2)
    source.observe([5, 6])  # no suggestion before it
    assert source.counts()["conversation"] == SourceCounts(6, 2)
    assert source.counts()["recycling"] == SourceCounts(0, 0)


def test_a_suggestion_that_was_followed_by_none_is_not_counted():
    source = index([1, 2, 3, 1, 2])
    source.suggest([], 6)
    source.suggest([], 0)
    source.observe([3])
    assert source.counts()["conversation"] == SourceCounts(0, 0)


def test_a_suggestion_that_was_replaced_is_not_counted():
    source = index([1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2])
    source.suggest([], 6)
    source.suggest([], 2)
    source.observe([3, 4, 5])
    assert source.counts()["conversation"] == SourceCounts(2, 2)


@pytest.mark.parametrize(("kept", "drafted"), [(-1, 0), (0, 0), (2, 2), (99, 6)])
def test_only_what_was_tried_is_counted(kept, drafted):
    source = index([1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2])
    draft = source.suggest([], 6)
    source.truncate_pending(kept)
    source.observe([3, 4, 5, 6, 7, 8])
    assert source.counts()["conversation"] == SourceCounts(drafted, drafted)
    assert len(draft) == 6


def test_clearing_references_drops_their_pending_account_too():
    source = index([1, 2])
    source.add_reference([1, 2, 3, 4])
    assert suggested(source)[0] == "reference:0"
    source.clear_references()
    source.observe([9, 9, 1, 2])
    assert list(source.counts()) == ["conversation", "recycling"]
    assert source.counts()["recycling"] == SourceCounts(0, 0)
    assert source.add_reference([1, 2, 5]) == "reference:0"
    assert source.counts()["reference:0"] == SourceCounts(0, 0)


def test_clearing_references_keeps_the_pending_account_of_others():
    source = index([1, 2, 3, 1, 2])
    source.suggest([], 1)
    source.clear_references()
    source.observe([3])
    assert source.counts()["conversation"] == SourceCounts(1, 1)


tokens = st.lists(st.integers(0, 3), max_size=30)


@settings(max_examples=150, deadline=None)
@given(document=st.lists(st.integers(0, 3), min_size=1, max_size=20), early=tokens, late=tokens)
def test_a_reference_that_joins_late_is_where_one_from_the_start_is(document, early, late):
    first, second = index(conversation=False), index(conversation=False)
    first.add_reference(document)
    for source in (first, second):
        source.observe(early)
    second.add_reference(document)
    for token in late:
        assert first.match_lengths() == second.match_lengths()
        assert suggested(first, 6) == suggested(second, 6)
        first.observe([token])
        second.observe([token])
    assert first.match_lengths() == second.match_lengths()


def test_what_is_kept_to_catch_up_is_bounded(monkeypatch):
    monkeypatch.setattr(cascade, "CATCH_UP_TOKENS", 8)
    source = index()
    for token in range(100):
        source.observe([token])
        assert len(source._stream) <= 16
    source.add_reference(range(100))
    source.observe([100])
    source.clear_references()
    source.add_reference(range(200))
    assert 8 <= source.match_lengths()["reference:0"] <= 17


def test_an_index_that_was_built_before_serves_as_reference():
    built = FrozenAutomaton(np.array([1, 2, 3], dtype=np.int32))
    first, second = index([1, 2]), index([7, 1])
    for source in (first, second):
        source.add_reference(built)
    assert suggested(first) == ("reference:0", [3])
    assert second.match_lengths()["reference:0"] == 1


@pytest.mark.parametrize("bad", [[], [1, 1000], [-1], [1.5], np.array([[1]]), [2**40]])
def test_a_bad_reference_changes_nothing(bad):
    source = index([1, 2])
    with pytest.raises(InvalidArgumentError):
        source.add_reference(bad)
    assert list(source.counts()) == ["conversation", "recycling"]


def test_an_index_of_another_vocabulary_is_refused():
    with pytest.raises(InvalidArgumentError, match="1000, outside the vocabulary"):
        index().add_reference(FrozenAutomaton(np.array([1000, 2], dtype=np.int32)))


@pytest.mark.parametrize("recycling", [True, False])
@pytest.mark.parametrize("bad", [[3, 1000], [3, -1], [1.5]])
def test_a_bad_commit_changes_nothing(bad, recycling):
    source = index([1, 2, 9, 1, 2], recycling=recycling)
    source.suggest([], 1)
    with pytest.raises(InvalidArgumentError):
        source.observe(bad)
    assert source.match_lengths() == {"conversation": 2}
    source.observe([9])
    assert source.counts()["conversation"] == SourceCounts(1, 1)


@pytest.mark.parametrize(
    "bad",
    [
        *({name: value} for name in ("min_match", "budget_factor") for value in (0, 1.0, True)),
        *({name: 0} for name in ("max_recycled", "window")),
        {"mute_for": -1},
        {"min_acceptance": 1.1},
        {"margin": -0.1},
        {"policy": "best"},
        {"pair_slots": 3},
        {"token_cap": 1},
    ],
)
def test_impossible_options_are_refused(bad):
    with pytest.raises(InvalidArgumentError):
        SpeculationIndex(10, options=IndexOptions(**bad))


def test_a_rewound_index_is_one_that_never_saw_the_rest():
    document = [7, 8, 9, 10, 11, 12] * 3
    indexes = [SpeculationIndex(60, options=IndexOptions(recycling=False)) for _ in range(2)]
    for index in indexes:
        index.add_reference(document)
    rewound, fresh = indexes
    rewound.observe([1, 2, 3, 4, 7, 8, 1, 2])
    assert rewound.suggest((), 9)
    rewound.observe([5, 5, 5, 5])
    rewound.rewind([1, 2, 3, 4, 7, 8])
    fresh.observe([1, 2, 3, 4, 7, 8])
    for token in (9, 10, 1, 2):
        assert list(rewound.suggest((), 9)) == list(fresh.suggest((), 9))
        assert rewound.match_lengths() == fresh.match_lengths()
        for index in indexes:
            index.observe([token])


def test_recycling_does_not_learn_that_the_rest_followed():
    index = SpeculationIndex(60)
    index.observe([1, 2, 3, 4])
    index.rewind([1, 2])
    index.observe([9])
    assert index.recycling.topk_of(4) == []
    assert index.recycling.topk_of(2)[0] == 9
