"""Going on where a copy left off, against a twin that follows the documented rule slowly."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from maglio._core import FrozenAutomaton, SuffixAutomaton
from maglio.draft.conversation import ConversationMember
from maglio.draft.registry import Setting, calibrated
from maglio.economics.cost import FLAT_COST
from support.cascades import plain, prompt, proposed

AHEAD, BEHIND, COMPARED, FIRM, SEARCHED = 256, 64, 32, 2, 32


class Twin:
    """Follows a stream along a text, by default its own past. A place is where it goes on."""

    def __init__(self, text=None):
        self.stream = []
        self.text = self.stream if text is None else text
        self.is_own = text is None
        self.place = self.last = None
        self.agreed = self.wrong = 0

    def follow(self, token, match):
        """``match`` is what the longest match goes on with: a place, and a length."""
        at, length = match
        is_in_place = self.place is not None and self.text[self.place] == token
        is_match = length >= FIRM and self.text[at] == token
        self.stream.append(token)
        if is_in_place:
            self._arrive(self.place + 1, self.agreed + 1)
        elif is_match:
            self._arrive(at + 1, length + 1)
        else:
            self.wrong += 1
            self._search()
        if self.place is not None and self.place >= len(self.text):
            self.place = None

    def _arrive(self, place, agreed):
        self.place = self.last = place
        self.agreed, self.wrong = agreed, 0

    def _search(self):
        self.place, self.agreed = None, 0
        if self.last is None:
            return
        near = range(max(1, self.last - BEHIND), min(len(self.text) - 1, self.last + AHEAD) + 1)
        # The longest agreement; of equal ones ahead before behind, then the nearest.
        ranked = [(self._agreement(p), p >= self.last, -abs(p - self.last), p) for p in near]
        best = max(ranked, default=(0, False, 0, None))
        if best[0] > 0:
            self.agreed, self.place = best[0], best[3]
        elif self.wrong == 1:
            self.place = self.last + 1

    def _agreement(self, place):
        agreed = 0
        while (
            agreed < min(place, COMPARED, len(self.stream))
            and self.text[place - 1 - agreed] == self.stream[-1 - agreed]
        ):
            agreed += 1
        return agreed

    def draft(self, limit):
        if self.place is None:
            return []
        out = self.text[self.place :][:limit]
        while self.is_own and len(out) < limit:
            out.append((self.text[self.place :] + out)[len(out)])
        return out


def array(tokens) -> np.ndarray:
    return np.array(tokens, dtype=np.int32)


def follow(index, twin, token):
    """The stream of both goes on; what the index matched before is the twin's to know too."""
    match = index.match_end + 1, index.match_length
    index.append(token)
    twin.follow(token, match)


def far_apart(gap):
    """A copy that leaves its text and goes on ``gap`` tokens further or, if negative, before."""
    text = list(range(1000, 1400))
    return [*text, *text[100:110], 7, 8, *text[110 + gap : 120 + gap], 9]


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=120))
@example([0] * 100)
@example([*range(50), *range(25), 99, *range(26, 50), 98, *range(20, 30)])
@example(far_apart(AHEAD - 1))
@example(far_apart(AHEAD + 1))
@example(far_apart(1 - BEHIND))
@example(far_apart(-1 - BEHIND))
def test_a_place_is_kept_lost_and_found_as_documented(stream):
    index, twin = SuffixAutomaton(), Twin()
    for token in stream:
        follow(index, twin, token)
        assert index.weighed_draft_in_place(24)[0] == twin.draft(24)
        assert index.place_agreed == twin.agreed
    assert index.check() == ""


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 2), max_size=90), st.integers(4, 40), st.integers(1, 90))
def test_an_index_that_starts_over_from_its_tail_stays_whole(stream, cap, chunk):
    index, whole = SuffixAutomaton(token_cap=cap), SuffixAutomaton(token_cap=cap)
    for start in range(0, len(stream), chunk):
        index.extend(array(stream[start : start + chunk]))
        assert index.check() == ""
        drafted, evidence = index.weighed_draft_in_place(9)
        assert len(drafted) == len(evidence) in (0, 9)
    for token in stream:
        whole.append(token)
    if chunk <= SEARCHED:
        assert index.weighed_draft_in_place(9) == whole.weighed_draft_in_place(9)


@settings(max_examples=80, deadline=None)
@given(
    text=st.lists(st.integers(0, 3), min_size=1, max_size=60),
    stream=st.lists(st.integers(0, 3), max_size=60),
)
@example(text=list(range(400)), stream=[*range(10), 999, *range(250, 260), 5])
@example(text=[1, 2, 3], stream=[1, 2, 3, 1, 2, 3])
def test_a_place_in_a_document_is_kept_lost_and_found_the_same_way(text, stream):
    document = FrozenAutomaton(array(text))
    cursor, twin = document.cursor(), Twin(text)
    for token in stream:
        length = cursor.match_length
        drafted = cursor.draft(len(text))
        twin.follow(token, (len(text) - len(drafted), length))
        cursor.advance(token)
        in_place, evidence = cursor.weighed_draft_in_place(24)
        assert in_place == twin.draft(24)
        assert len(evidence) == len(in_place)
        assert cursor.place_agreed == twin.agreed


def evidence_of(tokens, limit):
    index = SuffixAutomaton()
    index.extend(array(tokens))
    return index.weighed_draft_in_place(limit)


def test_the_evidence_is_that_of_the_context_which_agrees():
    # A token of 1 2 3 4 was replaced, 3 agrees again: it was followed by 4 and by 5, once each.
    drafted, evidence = evidence_of([10, 11, 1, 2, 3, 4, 8, 2, 3, 5, 9, 10, 11, 1, 7, 3], 2)
    assert drafted == [4, 8]
    assert list(evidence) == [4, 0]
    # Where a token was replaced nothing is known of the context.
    drafted, evidence = evidence_of([*range(10), 0, 1, 2, 99], 3)
    assert drafted == [4, 5, 6]
    assert list(evidence) == [0, 0, 0]


def test_a_conversation_guesses_in_place_first_and_nothing_twice():
    member = ConversationMember()
    member.follow(array([5, 1, 2, 3, 5, 7, 8, 5, 1, 2]))
    assert [(guess.kind, guess.agreed) for guess in member.guesses(4)] == [
        ("conversation in place", 4)
    ]
    member.follow(array([9]))  # instead of 3: perhaps it was replaced
    [guess] = member.guesses(4)
    assert (guess.kind, guess.agreed, guess.tokens) == ("conversation in place", 1, [5, 7, 8, 5])
    member.follow(array([5]))
    in_place, latest = member.guesses(2)
    assert (in_place.kind, in_place.tokens) == ("conversation in place", [7, 8])
    assert (latest.kind, latest.tokens) == ("conversation", [1, 2])


def test_a_list_is_copied_in_order_where_its_separators_are_all_alike():
    text = [token for item in range(1, 9) for token in (0, 100 + item, 200 + item, 300 + item)]
    source = calibrated()(Setting(n_vocab=500, cost=FLAT_COST))
    source.observe(prompt([*text, 400]))
    for token in (0, 101, 201, 301, 0, 102, 202, 333, 0):
        source.propose([], 4)
        source.observe(plain(token))
    # The latest 0 was followed by 102; behind the place comes 103.
    assert proposed(source, 3) == ("conversation", [103, 203, 303])
