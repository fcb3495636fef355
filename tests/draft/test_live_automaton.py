"""The live index against a slow twin that knows only strings."""

import itertools
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maglio._core import SuffixAutomaton
from support.evidence_twin import ONCE, occurrences, weigh

REFRESHED = 8


class Twin:
    """The documented behaviour, by brute force over substrings; a token is a character."""

    def __init__(self, cap=10**9):
        self.cap = cap
        self.text = ""
        self.end = {}

    def append(self, char):
        if len(self.text) == self.cap:
            tail = self.text[-(self.cap // 4) :]
            self.text, self.end = "", {}
            for kept in tail:
                self.append(kept)
        self._refresh(char)
        self.text += char
        for start in range(len(self.text)):
            self.end.setdefault(self.text[start:], len(self.text) - 1)

    def _refresh(self, char):
        """Suffixes fall in classes by where they occur; some classes see their latest end."""
        suffixes = [self.text[i:] for i in range(len(self.text) + 1)]
        further = None
        for _, group in itertools.groupby(suffixes, key=self._occurrences):
            if further == 0:
                break
            further = None if further is None else further - 1
            members = list(group)
            self.end.update(dict.fromkeys(members, len(self.text) - 1))
            if further is None and members[0] + char in self.text:
                further = REFRESHED

    def _occurrences(self, string):
        found, at = [], self.text.find(string)
        while at >= 0:
            found.append(at + len(string))
            at = self.text.find(string, at + 1)
        return found

    def match(self):
        before = self.text[:-1]
        return next(s for i in range(len(self.text) + 1) if (s := self.text[i:]) in before)

    def draft(self, limit):
        match = self.match() if self.text else ""
        if not match:
            return ""
        return follow(self.text, self.end[match], limit)

    def evidence(self, limit):
        """For each draft token, by counting its context of up to 15 tokens before the end."""
        context, found = self.match() if self.text else "", []
        for token in self.draft(limit):
            contexts = occurrences(context, self.text[:-1])
            followed = occurrences(context + token, self.text)
            known = len(context) < COUNTED and followed > 0
            found.append(weigh(followed, contexts) if known else ONCE)
            context += token
        return bytes(found)


COUNTED = 16


def follow(text, end, limit):
    out = text[end + 1 :]
    while len(out) < limit:
        out += out
    return out[:limit]


def array(tokens):
    return np.array(tokens, dtype=np.int32)


def check_against_twin(tokens, twin, index):
    names = {token: chr(i + 97) for i, token in enumerate(dict.fromkeys(tokens))}
    ids = {name: token for token, name in names.items()}
    for token in tokens:
        twin.append(names[token])
        index.append(token)
        assert index.check() == ""
        assert index.match_length == len(twin.match())
        limit = len(twin.text) + 5
        assert index.draft(limit) == [ids[c] for c in twin.draft(limit)]
        assert index.weighed_draft(limit) == (index.draft(limit), twin.evidence(limit))
        assert index.states <= 2 * index.indexed_tokens + 1
        assert index.transitions <= 3 * index.indexed_tokens


def test_match_and_draft_equal_brute_force_after_every_append(stream):
    check_against_twin(stream, Twin(), SuffixAutomaton())


@given(st.sampled_from([2, 5, 31]).flatmap(lambda a: st.lists(st.integers(0, a - 1), max_size=40)))
def test_match_and_draft_equal_brute_force_on_any_stream(tokens):
    check_against_twin(tokens, Twin(), SuffixAutomaton())


@given(st.integers(4, 20), st.lists(st.integers(0, 2), max_size=60))
def test_a_full_index_restarts_from_its_last_quarter(cap, tokens):
    check_against_twin(tokens, Twin(cap), SuffixAutomaton(token_cap=cap))


@pytest.mark.parametrize("alphabet", [5, 31, 1000])
def test_a_draft_follows_the_most_recent_occurrence_where_contexts_are_few(alphabet):
    tokens = np.random.default_rng(alphabet).integers(alphabet, size=600).tolist()
    index = SuffixAutomaton()
    text = ""
    for token in tokens:
        index.append(token)
        text += chr(token)
        match = index.match_length
        suffix = text[len(text) - match :]
        assert suffix in text[:-1]
        assert text[len(text) - match - 1 :] not in text[:-1]
        if match:
            end = text[:-1].rfind(suffix) + match - 1
            assert index.draft(8) == [ord(c) for c in follow(text, end, 8)]


@given(
    st.lists(st.integers(0, 3), max_size=80),
    st.lists(st.integers(0, 80), max_size=5),
    st.sampled_from([8, 33, 1000]),
)
def test_extending_in_chunks_equals_appending(tokens, cuts, cap):
    one_by_one, chunked = SuffixAutomaton(token_cap=cap), SuffixAutomaton(token_cap=cap)
    for token in tokens:
        one_by_one.append(token)
    for start, stop in itertools.pairwise([0, *sorted(cuts), len(tokens)]):
        chunked.extend(array(tokens[start:stop]))
    assert chunked.check() == ""
    for name in ("match_length", "states", "transitions", "indexed_tokens", "total_tokens"):
        assert getattr(chunked, name) == getattr(one_by_one, name)
    assert chunked.weighed_draft(100) == one_by_one.weighed_draft(100)


@given(st.lists(st.integers(0, 2), max_size=120), st.sets(st.integers(0, 119)))
def test_counts_may_lag_behind_the_structure(tokens, asked):
    eager, lazy = SuffixAutomaton(), SuffixAutomaton()
    for i, token in enumerate(tokens):
        eager.append(token)
        lazy.append(token)
        eager.weighed_draft(1)
        if i in asked:
            lazy.weighed_draft(1)
            assert lazy.check() == ""
    assert lazy.weighed_draft(50) == eager.weighed_draft(50)
    assert lazy.check() == eager.check() == ""


def test_a_long_prompt_is_counted_at_the_first_weighed_draft():
    tokens = np.random.default_rng(3).integers(7, size=5000, dtype=np.int32)
    at_once, bit_by_bit = SuffixAutomaton(), SuffixAutomaton()
    at_once.extend(tokens)
    for chunk in np.array_split(tokens, 200):
        bit_by_bit.extend(chunk)
        bit_by_bit.weighed_draft(4)
    assert at_once.weighed_draft(40) == bit_by_bit.weighed_draft(40)
    assert at_once.check() == ""


def test_a_large_index_keeps_its_invariants():
    rng = np.random.default_rng(0)
    tokens = (rng.zipf(1.2, size=60_000) % 150_000).astype(np.int32)
    tokens[30_000:40_000] = tokens[5_000:15_000]
    index = SuffixAutomaton(token_cap=50_000)
    for chunk in np.array_split(tokens[:45_000], 3):
        index.extend(chunk)
        assert index.check() == ""
    assert index.memory_bytes < 100 * 45_000
    index.extend(tokens[45_000:])
    assert index.check() == ""
    assert index.total_tokens == 60_000
    assert index.indexed_tokens == 50_000 // 4 + 10_000


def test_an_endless_stream_does_not_grow():
    rng = np.random.default_rng(1)
    index = SuffixAutomaton(token_cap=256)
    sizes = []
    for _ in range(40):
        index.extend(rng.integers(5, size=500, dtype=np.int32))
        sizes.append(index.memory_bytes)
    assert sizes[-1] < 256 * 120 + 4096
    assert index.check() == ""


def test_repetition_is_drafted_beyond_the_end_of_the_stream():
    index = SuffixAutomaton()
    index.extend(array([4, 5, 6, 4, 5, 6, 4]))
    assert index.draft(7) == [5, 6, 4, 5, 6, 4, 5]


def test_an_empty_or_fresh_stream_drafts_nothing():
    index = SuffixAutomaton()
    assert (index.match_length, index.draft(4)) == (0, [])
    index.extend(array([1, 2, 3]))
    assert (index.match_length, index.draft(4)) == (0, [])
    assert index.check() == ""


def test_a_negative_token_is_refused_and_changes_nothing():
    index = SuffixAutomaton()
    index.extend(array([1, 2, 1]))
    with pytest.raises(ValueError, match="-5"):
        index.extend(array([2, -5]))
    assert (index.indexed_tokens, index.match_length, index.poisoned) == (3, 1, False)


@pytest.mark.parametrize("cap", [3, 0, -1, 2**26 + 1])
def test_an_impossible_cap_is_refused(cap):
    with pytest.raises(ValueError, match="token_cap"):
        SuffixAutomaton(token_cap=cap)


def test_running_out_of_memory_poisons_the_index_for_ever():
    program = """
        import resource
        import numpy as np
        from maglio._core import SuffixAutomaton
        from maglio.draft.conversation import ConversationMember

        tokens = np.random.default_rng(0).integers(9, size=200_000, dtype=np.int32)
        index, member = SuffixAutomaton(), ConversationMember()
        index.extend(tokens)
        member.follow(tokens)
        assert index.match_length > 0
        pages = int(open("/proc/self/statm").read().split()[0])
        limit = pages * resource.getpagesize() + (4 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        failed = False
        for _ in range(50):
            try:
                index.extend(tokens)
            except MemoryError:
                failed = True
                break
        assert failed and index.poisoned
        for _ in range(50):
            member.follow(tokens)
        assert member._index.poisoned
        index.append(3)
        index.append(3)
        assert index.match_length == 0 and index.draft(4) == [] and index.check() == ""
        assert member.match_length == 0 and member.draft(8) == []
        try:
            index.freeze()
        except ValueError:
            print("refused")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True
    )
    assert done.stdout.strip() == "refused", done.stderr
