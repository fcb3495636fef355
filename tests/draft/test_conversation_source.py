"""The conversation source: what it proposes, and how it keeps account."""

import numpy as np
import pytest

from maglio.draft.source import DraftSource, LabelsDrafts, SourceCounts, TruncatesPending
from maglio.draft.suffix import ConversationSource, common_prefix, draft_budget
from maglio.errors import InvalidArgumentError
from maglio.tokens import token_array


@pytest.fixture
def source():
    source = ConversationSource()
    source.observe([1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2])
    return source


def counts(source):
    return source.counts()["conversation"]


def test_it_fills_the_seams_of_a_source(source):
    typed: DraftSource = source
    assert isinstance(typed, LabelsDrafts)
    assert isinstance(typed, TruncatesPending)
    assert source.drafted_by == "conversation"


def test_the_draft_is_as_long_as_the_match_is_worth(source):
    assert draft_budget(2) == 6
    assert source.match_length == 2
    assert source.suggest([], 99) == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("limit", [0, 1, 4])
def test_the_limit_caps_the_draft(source, limit):
    assert source.suggest([], limit) == [3, 4, 5, 6][:limit]


def test_short_matches_are_no_evidence():
    source = ConversationSource()
    source.observe([1, 2, 3, 1])
    assert (source.match_length, source.suggest([], 8)) == (1, [])
    eager = ConversationSource(min_match=1)
    eager.observe([1, 2, 3, 1])
    assert eager.suggest([], 8) == [2, 3, 1, 2]


def test_acceptance_is_the_common_prefix_of_draft_and_commit(source):
    source.suggest([], 6)
    source.observe([3, 4, 9])
    assert counts(source) == SourceCounts(drafted=6, accepted=2)


def test_commits_without_a_draft_are_not_counted(source):
    source.suggest([], 6)
    source.observe([3])
    source.observe([4, 5])
    assert counts(source) == SourceCounts(drafted=6, accepted=1)


def test_a_suggestion_that_was_never_tried_is_not_counted(source):
    source.suggest([], 6)
    source.suggest([], 2)
    source.observe([3, 4, 5])
    assert counts(source) == SourceCounts(drafted=2, accepted=2)


@pytest.mark.parametrize(("kept", "drafted"), [(0, 0), (2, 2), (99, 6), (-1, 0)])
def test_truncating_counts_only_what_was_tried(source, kept, drafted):
    source.suggest([], 6)
    source.truncate_pending(kept)
    source.observe([3, 4, 5, 6, 7, 8])
    assert counts(source) == SourceCounts(drafted=drafted, accepted=drafted)


def test_truncating_does_not_change_the_suggestion_already_handed_out(source):
    draft = source.suggest([], 6)
    source.truncate_pending(1)
    assert len(draft) == 6


def test_a_bad_commit_is_refused_and_indexes_nothing(source):
    source.suggest([], 6)
    for bad in ([3, -1], [2**31], [1.5], [[1, 2]]):
        with pytest.raises(InvalidArgumentError, match="token ids"):
            source.observe(bad)
    assert source.index.total_tokens == 11
    source.observe([3])
    assert counts(source) == SourceCounts(drafted=6, accepted=1)


@pytest.mark.parametrize("options", [{"min_match": 0}, {"token_cap": 3}, {"token_cap": 2**40}])
def test_impossible_options_are_refused(options):
    with pytest.raises(InvalidArgumentError):
        ConversationSource(**options)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint8])
def test_arrays_of_any_integer_type_are_tokens(dtype):
    array = token_array(np.array([1, 2, 3], dtype=dtype)[::-1])
    assert array.dtype == np.int32
    assert array.tolist() == [3, 2, 1]


@pytest.mark.parametrize("bad", [-1, -(2**32) + 5, 2**31, 2**32 + 5])
def test_ids_out_of_range_never_wrap_around(bad):
    for tokens in ([3, bad], np.array([3, bad], dtype=np.int64)):
        with pytest.raises(InvalidArgumentError, match="token ids"):
            token_array(tokens)


def test_an_int32_array_is_not_copied():
    array = np.array([1, 2], dtype=np.int32)
    assert token_array(array) is array
    assert token_array([]).dtype == np.int32


def test_a_common_prefix_ends_at_the_first_difference_or_the_shorter_end():
    assert common_prefix([1, 2, 3], [1, 2, 4]) == 2
    assert common_prefix([1], [1, 2]) == 1
    assert common_prefix([], [1]) == 0
