"""Recycling tables against a plain twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio.draft.recycling import RecyclingMember
from maglio.errors import InvalidArgumentError

N_VOCAB = 11
BIG = 1 << 16  # slots in which the few pairs of a test do not collide


class Twin:
    """The same tables as dictionaries."""

    def __init__(self, *, pairs: bool) -> None:
        self.rows: dict[int, list[int]] = {}
        self.pairs: dict[tuple[int, int], int] | None = {} if pairs else None
        self.stream: list[int] = []

    def follow(self, tokens):
        for token in tokens:
            if self.stream:
                last = self.stream[-1]
                others = [t for t in self.rows.get(last, []) if t != token]
                self.rows[last] = [token, *others][:8]
                self._pair(self.stream[-2:], token)
            self.stream.append(token)

    def recycle(self, tokens, candidates):
        before = self.stream[-2:-1] if self.stream[-1:] == tokens[:1] else []
        for token, row in zip(tokens, candidates, strict=True):
            self.rows[token] = row[:8]
            self._pair([*before, token], row[0])
            before = [token]

    def _pair(self, key, token):
        if self.pairs is not None and len(key) == 2:
            self.pairs[tuple(key)] = token

    def draft(self, limit):
        if not self.stream:
            return []
        chain = self.stream[-2:]
        out: list[int] = []
        while len(out) < limit:
            following = (self.pairs or {}).get(tuple(chain[-2:]))
            if following is None:
                following = (self.rows.get(chain[-1]) or [None])[0]
            if following is None:
                break
            out.append(following)
            chain.append(following)
        return out


tokens = st.integers(0, N_VOCAB - 1)


@st.composite
def row_batches(draw):
    width = draw(st.integers(1, 10))
    fed = draw(st.lists(tokens, min_size=1, max_size=4))
    row = st.permutations(range(N_VOCAB)).map(lambda p: list(p[:width]))
    return fed, [draw(row) for _ in fed]


@settings(max_examples=200, deadline=None)
@given(
    steps=st.lists(st.one_of(st.lists(tokens, max_size=4), row_batches()), max_size=25),
    pairs=st.booleans(),
    continues=st.booleans(),
)
def test_the_tables_agree_with_their_twin_after_every_step(steps, pairs, continues):
    table = RecyclingMember(N_VOCAB, pair_slots=BIG if pairs else 0)
    twin = Twin(pairs=pairs)
    for step in steps:
        if isinstance(step, list):
            table.follow(np.array(step, dtype=np.int32))
            twin.follow(step)
        else:
            fed, rows = step
            if continues and twin.stream:
                fed = [twin.stream[-1], *fed[1:]]
            table.recycle(fed, np.array(rows, dtype=np.int32))
            twin.recycle(fed, rows)
        assert table.draft(8) == twin.draft(8)
        assert [table.topk_of(t) for t in range(N_VOCAB)] == [
            twin.rows.get(t, []) for t in range(N_VOCAB)
        ]
        assert table.native.check() == ""


def test_colliding_pairs_replace_each_other_and_are_never_mistaken():
    table = RecyclingMember(50, pair_slots=1)
    table.follow(np.array([1, 2, 3, 4, 5, 4, 9, 2], dtype=np.int32))
    # The one slot holds (4, 9) -> 2; (9, 2) is not known, so the row of 2 answers.
    assert table.draft(1) == [3]


def test_eight_candidates_are_kept():
    table = RecyclingMember(50)
    assert table.WIDTH == 8
    table.recycle([7], np.arange(20, 30, dtype=np.int32)[None])
    assert table.topk_of(7) == list(range(20, 28))
    assert table.topk_of(8) == []


def test_memory_is_what_the_vocabulary_takes():
    assert RecyclingMember(151_936, pair_slots=0).native.memory_bytes == 151_936 * 8 * 4


@pytest.mark.parametrize(("n_vocab", "slots"), [(0, 0), (2**25, 0), (5, 3), (5, 2**25), (5, -1)])
def test_impossible_sizes_are_refused(n_vocab, slots):
    with pytest.raises(InvalidArgumentError):
        RecyclingMember(n_vocab, pair_slots=slots)


def test_ids_outside_the_vocabulary_are_refused_and_change_nothing():
    table = RecyclingMember(5)
    table.follow(np.array([1, 2, 1], dtype=np.int32))
    with pytest.raises(InvalidArgumentError, match="token id 5"):
        table.follow(np.array([3, 5], dtype=np.int32))
    for fed, rows in (([1, 5], [[0], [0]]), ([1], [[0, 5]]), ([1], [[-1]]), ([1], [[0], [0]])):
        with pytest.raises(InvalidArgumentError):
            table.recycle(fed, np.array(rows, dtype=np.int32))
    with pytest.raises(InvalidArgumentError):
        table.topk_of(5)
    assert table.draft(3) == [2, 1, 2]


def test_a_chain_has_the_evidence_of_one_sight():
    table = RecyclingMember(5)
    table.follow(np.array([1, 2, 3, 1], dtype=np.int32))
    assert table.guesses(4) == (("recycling", 0, [2, 3, 1, 2], bytes(4)),)
    assert table.match_length == 0


def test_a_rewound_table_goes_on_from_the_end_of_what_is_kept():
    table = RecyclingMember(9)
    table.follow(np.array([1, 2, 3, 4, 5], dtype=np.int32))
    table.rewind(np.array([1, 2], dtype=np.int32))
    assert table.draft(2) == [3, 4]  # what followed 2 once may follow it again
    table.follow(np.array([7], dtype=np.int32))
    table.follow(np.array([1, 2], dtype=np.int32))
    assert table.draft(1) == [7]
    assert table.topk_of(5) == []
