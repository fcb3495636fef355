"""Members after a rewind: they know the stream that was kept, up to a bound, and no more."""

from __future__ import annotations

import numpy as np
import pytest

from maglio._core import FrozenAutomaton
from maglio.draft import conversation
from maglio.draft.conversation import ConversationMember
from maglio.draft.reference import ReferenceMember


def ids(*tokens):
    return np.array(tokens, dtype=np.int32)


@pytest.fixture
def member():
    member = ConversationMember()
    member.follow(ids(1, 2, 3, 4, 5, 1, 2))
    return member


def test_what_was_taken_back_is_drafted_no_more(member):
    assert member.draft(3) == [3, 4, 5]
    member.rewind(ids(1, 2))
    assert (member.match_length, member.draft(3)) == (0, [])
    member.follow(ids(7, 1, 2))
    assert member.draft(3) == [7, 1, 2]


def test_nothing_of_the_old_stream_is_kept_until_the_index_is_asked(member):
    member.rewind(ids(1, 2))
    assert member._index.total_tokens == 0


def test_the_stream_may_change_under_a_rewind(member):
    stream = ids(1, 2, 1)
    member.rewind(stream)
    stream[:] = 9
    assert member.draft(1) == [2]


def test_two_rewinds_are_the_last_one(member):
    member.rewind(ids(1, 2, 3, 1))
    member.rewind(ids(1, 2))
    member.follow(ids(1))
    assert member.draft(1) == [2]


def test_a_rewind_reads_no_more_than_it_says(member, monkeypatch):
    monkeypatch.setattr(conversation, "REWOUND_TOKENS", 4)
    member.rewind(ids(8, 9, 1, 2, 3, 1))
    assert member._level().total_tokens == 4
    assert member.draft(2) == [2, 3]
    member.follow(ids(8))
    assert member.match_length == 0


def test_a_reference_matches_the_end_of_a_long_stream_after_a_rewind():
    member = ReferenceMember("reference:0", FrozenAutomaton(ids(1, 2, 3, 4)))
    stream = np.zeros(1 << 17, dtype=np.int32)
    stream[-2:] = 2, 3
    member.rewind(stream)
    assert (member.match_length, member.draft(3)) == (2, [4])
