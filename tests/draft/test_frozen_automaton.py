"""Frozen indexes and their cursors against brute force over strings."""

import gc
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maglio._core import FrozenAutomaton, SuffixAutomaton
from support.evidence_twin import weigh


def array(tokens):
    return np.array(tokens, dtype=np.int32)


def packed(count):
    """A count as the index keeps it: with four significant bits."""
    shift = max(0, count.bit_length() - 4)
    return count >> shift << shift


class Brute:
    """What a cursor must answer, from the definition."""

    def __init__(self, document):
        self.names = {}
        self.document = "".join(map(self._name, document))
        self.ids = {name: token for token, name in self.names.items()}
        self.likeliest_end = cache(self._likeliest_end)

    def _name(self, token):
        return self.names.setdefault(token, chr(len(self.names) + 97))

    def match(self, stream):
        text = "".join(self.names.get(t, "?") for t in stream)
        return next(s for i in range(len(text) + 1) if (s := text[i:]) in self.document[:-1])

    def _count(self, string):
        return sum(self.document.startswith(string, i) for i in range(len(self.document)))

    def _likeliest_end(self, string):
        nexts = [string + c for c in sorted(set(self.document)) if string + c in self.document]
        if not nexts:
            return len(self.document) - 1
        return max((self._count(s), self.likeliest_end(s)) for s in nexts)[1] - 1

    def evidence(self, match, draft):
        found = []
        names = {token: name for name, token in self.ids.items()}
        for token in draft:
            contexts = packed(self._count(match))
            match += names[token]
            found.append(weigh(packed(self._count(match)), contexts))
        return bytes(found)

    def draft(self, match, limit):
        if not match:
            return []
        end = self.likeliest_end(match)
        return [self.ids[c] for c in self.document[end + 1 : end + 1 + limit]]


def check_cursor(document, stream):
    brute = Brute(document)
    index = FrozenAutomaton(array(document))
    assert index.check() == ""
    assert len(index) == len(document)
    cursor = index.cursor()
    for i, token in enumerate(stream):
        cursor.advance(token)
        match = brute.match(stream[: i + 1])
        assert cursor.match_length == len(match)
        for limit in (0, 1, 3, len(document) + 1):
            draft = brute.draft(match, limit)
            assert cursor.draft(limit) == draft
            assert cursor.weighed_draft(limit) == (draft, brute.evidence(match, draft))
        assert not match or cursor.draft(1)


def test_a_cursor_equals_brute_force_over_every_document(stream):
    document = stream[:40]
    foreign = [10**6, *document[5:15], *document[-8:], document[0], 10**6, *stream[30:60]]
    check_cursor(document, foreign)


@given(
    st.sampled_from([2, 5]).flatmap(
        lambda a: st.tuples(
            st.lists(st.integers(0, a - 1), max_size=25), st.lists(st.integers(0, a), max_size=25)
        )
    )
)
def test_a_cursor_equals_brute_force_on_any_document(pair):
    check_cursor(*pair)


def test_the_likeliest_continuation_is_drafted_not_the_latest():
    document = [1, 2, 3, 9, 1, 2, 3, 8, 1, 2, 7]
    cursor = FrozenAutomaton(array(document)).cursor()
    cursor.advance_many(array([1, 2]))
    assert cursor.draft(2) == [3, 8]


def test_a_match_at_the_end_of_the_document_falls_back_to_one_that_goes_on():
    cursor = FrozenAutomaton(array([5, 6, 7, 1, 6])).cursor()
    cursor.advance_many(array([1, 6]))
    assert (cursor.match_length, cursor.draft(4)) == (1, [7, 1, 6])
    cursor.advance(7)
    assert (cursor.match_length, cursor.draft(4)) == (2, [1, 6])


def test_freezing_a_live_index_equals_building_from_its_tokens(stream):
    live = SuffixAutomaton(token_cap=64)
    live.extend(array(stream))
    frozen, built = live.freeze(), FrozenAutomaton(array(stream[-live.indexed_tokens :]))
    assert frozen.check() == ""
    assert (frozen.states, frozen.transitions) == (built.states, built.transitions)
    a, b = frozen.cursor(), built.cursor()
    for token in stream:
        a.advance(token)
        b.advance(token)
        assert (a.match_length, a.draft(9)) == (b.match_length, b.draft(9))


def test_appending_after_freezing_leaves_the_frozen_index_alone():
    live = SuffixAutomaton()
    live.extend(array([1, 2, 3, 1, 2]))
    frozen = live.freeze()
    live.extend(array([4, 1, 2, 4]))
    cursor = frozen.cursor()
    cursor.advance_many(array([1, 2]))
    assert (len(frozen), cursor.draft(3)) == (5, [3, 1, 2])


def test_cursors_are_independent_and_keep_the_index_alive():
    index = FrozenAutomaton(array([1, 2, 3, 4, 5]))
    first, second = index.cursor(), index.cursor()
    del index
    gc.collect()
    first.advance_many(array([1, 2]))
    second.advance(4)
    assert (first.draft(9), second.draft(9)) == ([3, 4, 5], [5])


def test_a_frozen_index_is_compact():
    rng = np.random.default_rng(0)
    tokens = (rng.zipf(1.2, size=50_000) % 150_000).astype(np.int32)
    assert FrozenAutomaton(tokens).memory_bytes < 50 * len(tokens)


def test_an_empty_document_matches_nothing():
    index = FrozenAutomaton(array([]))
    cursor = index.cursor()
    cursor.advance(1)
    assert (index.check(), cursor.match_length, cursor.draft(3)) == ("", 0, [])


def test_a_negative_token_in_a_document_is_refused():
    with pytest.raises(ValueError, match="-1"):
        FrozenAutomaton(array([1, -1]))


def test_a_negative_token_in_a_stream_matches_nothing():
    cursor = FrozenAutomaton(array([1, 2])).cursor()
    cursor.advance(1)
    cursor.advance(-1)
    assert cursor.match_length == 0
