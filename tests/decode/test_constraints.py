"""Under a constraint the tokens are those of masked plain decoding, whatever is drafted."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from maglio.decode import Drafter, Picker, Scheduler, run
from maglio.decode import Sequence as TokenSequence
from maglio.economics.cost import FLAT_COST
from maglio.economics.live_cost import LiveCost
from maglio.errors import GrammarError, InvalidArgumentError, InvalidLogitsError
from support.decoding import GREEDY, PROMPT, SAMPLED
from support.toy_constraint import ToyConstraint, masked_plainly
from support.toy_engine import ToyEngine
from support.toy_sources import ScriptedSource, adversaries

N_VOCAB = 60
N_TOKENS = 40
KINDS = ("none", "silent", *adversaries([], N_VOCAB))


def expected(params) -> list[int]:
    return masked_plainly(ToyEngine(), Picker(params, N_VOCAB), PROMPT, N_TOKENS)


def begun(
    engine, params, kind, *, lies=False, max_tokens=N_TOKENS, logprobs=None, constraint=None
) -> TokenSequence:
    stream = [*PROMPT, *expected(params)]
    source = {
        "none": None,
        "silent": ScriptedSource(stream, lambda truth, call: None),
        **adversaries(stream, N_VOCAB),
    }[kind]
    drafter = None if source is None else Drafter(source, N_VOCAB)
    picker = Picker(params, N_VOCAB)
    sequence = TokenSequence(engine.new_cache(), picker, drafter, n_ctx=engine.n_ctx)
    constraint = constraint or ToyConstraint(N_VOCAB, lies=lies)
    sequence.begin(PROMPT, max_tokens=max_tokens, constraint=constraint, logprobs=logprobs)
    return sequence


@pytest.mark.parametrize("lies", [False, True])
@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_draft_and_no_lie_about_what_is_forced_changes_a_token(kind, params, lies):
    engine = ToyEngine()
    sequence = begun(engine, params, kind, lies=lies)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of sources that raise
        got = [token.id for token in run(engine, sequence)]
    assert got == expected(params)


def test_what_is_forced_saves_forwards_without_any_other_draft():
    engine = ToyEngine()
    sequence = begun(engine, GREEDY, "silent")
    assert [token.id for token in run(engine, sequence, LiveCost(FLAT_COST))] == expected(GREEDY)
    counts = sequence.stats.sources["grammar"]
    assert counts.accepted == counts.drafted > 0
    assert len(engine.calls) == N_TOKENS - counts.accepted


def taken_in_pieces(kind: str, pieces: Iterable[int]) -> None:
    """Take so many tokens of each step and leave the rest; see that each is the right one."""
    engine, right = ToyEngine(), expected(SAMPLED)
    sequence = begun(engine, SAMPLED, kind)
    got: list[int] = []
    for piece in pieces:
        sequence.plan()
        [rows] = engine.forward([sequence.next_segment(engine.max_rows)])
        sequence.accept(rows)
        got += [token.id for token in islice(sequence.take(), piece)]
        assert got == right[: len(got)]
        if sequence.finish_reason is not None:
            break
    assert got == right


@pytest.mark.parametrize("piece", [1, 2, 3])
@pytest.mark.parametrize("kind", ["silent", "perfect"])
def test_a_constraint_forgets_what_was_not_taken(kind, piece):
    """One failure of this says what a search for the smallest one takes long to say."""
    taken_in_pieces(kind, [piece] * N_TOKENS)


@settings(max_examples=60, deadline=None, phases=set(Phase) - {Phase.shrink, Phase.explain})
@given(
    kind=st.sampled_from(["none", "silent", "perfect"]),
    pieces=st.lists(st.integers(1, 7), min_size=N_TOKENS, max_size=N_TOKENS),
)
def test_tokens_that_were_not_taken_are_picked_again(kind, pieces):
    taken_in_pieces(kind, pieces)


class LimitedMask(ToyConstraint):
    """Meets a limit after seven tokens, when it is to say what may come."""

    def mask(self) -> np.ndarray:
        if self.length == 7:
            raise GrammarError("a limit")
        return super().mask()


class LimitedStep(ToyConstraint):
    """Meets a limit after seven tokens, when it is to follow another; then it is lost."""

    def extend(self, tokens) -> None:
        if self.length + len(tokens) > 7:
            self.tokens.clear()
            raise GrammarError("a limit")
        super().extend(tokens)


@pytest.mark.parametrize("kind", ["none", "perfect"])
@pytest.mark.parametrize("limited", [LimitedMask, LimitedStep])
def test_a_limit_in_the_middle_of_a_draft_loses_no_token_before_it(limited, kind):
    engine = ToyEngine()
    sequence = begun(engine, SAMPLED, kind, constraint=limited(N_VOCAB), logprobs=0)
    got = []
    with pytest.raises(GrammarError, match="a limit"):
        got.extend(token.id for token in run(engine, sequence))
    assert list(sequence.tokens[len(PROMPT) :]) == expected(SAMPLED)[:7]


@pytest.mark.parametrize("limited", [LimitedMask, LimitedStep])
def test_a_limit_behind_tokens_that_nobody_took_is_met_again(limited):
    engine = ToyEngine()
    sequence = begun(engine, SAMPLED, "perfect", constraint=limited(N_VOCAB))
    got: list[int] = []

    def step() -> None:
        sequence.plan()
        [rows] = engine.forward([sequence.next_segment(engine.max_rows)])
        sequence.accept(rows)
        got.append(next(sequence.take()).id)

    for _ in range(7):
        step()
    with pytest.raises(GrammarError, match="a limit"):
        step()
    assert got == expected(SAMPLED)[:7]


@settings(max_examples=30, deadline=None)
@given(kinds=st.lists(st.sampled_from(["none", "silent", "perfect", "garbage"]), min_size=2))
def test_constrained_streams_side_by_side_are_those_alone(kinds):
    engine = ToyEngine()
    sequences = [begun(engine, SAMPLED, kind) for kind in kinds[:8]]
    scheduler = Scheduler(engine, LiveCost(FLAT_COST))
    for sequence in sequences:
        scheduler.add(sequence)
    while progress := scheduler.step():
        for line in progress:
            list(line.sequence.take())
    for sequence in sequences:
        assert list(sequence.tokens[len(PROMPT) :]) == expected(SAMPLED)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_a_masked_pick_is_that_of_a_row_with_the_rest_impossible(data):
    n_vocab = data.draw(st.sampled_from([1, 31, 32, 33, 300]))
    row = np.random.default_rng(data.draw(st.integers(0, 999))).normal(size=n_vocab) * 3
    row = row.astype(np.float32)
    allowed = data.draw(st.sets(st.integers(0, n_vocab - 1), min_size=1))
    bits = np.zeros(-(-n_vocab // 32) * 32, dtype=np.uint8)
    bits[list(allowed)] = 1
    bits[n_vocab:] = data.draw(st.integers(0, 1))  # what lies past the vocabulary says nothing
    mask = np.packbits(bits, bitorder="little").view(np.int32)
    picker = Picker(data.draw(st.sampled_from([GREEDY, SAMPLED])), max(n_vocab, 8))
    row = np.concatenate([row, np.full(max(n_vocab, 8) - n_vocab, -np.inf, np.float32)])
    mask = np.resize(mask, -(-len(row) // 32))
    picker.extend(data.draw(st.lists(st.integers(0, n_vocab - 1), max_size=30)))
    impossible = row.copy()
    impossible[[t for t in range(n_vocab) if t not in allowed]] = -np.inf
    assert picker.pick(row, 5, mask) == picker.pick(impossible, 5)


@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_ends_that_are_ignored_come_where_a_mask_allows_nothing_else(params):
    row = np.linspace(0, 1, N_VOCAB, dtype=np.float32)
    ends = {3, 40}
    picker = Picker(replace(params, ignore_eos=True), N_VOCAB, ends=ends)

    def pick(*allowed: int) -> int:
        bits = np.zeros(64, np.uint8)
        bits[[*allowed]] = 1
        return picker.pick(row, 0, np.packbits(bits, bitorder="little").view(np.int32))

    assert pick(3, 40) == 40
    assert pick(3) == 3
    assert pick(3, 7, 40) == 7
    assert picker.pick(row, 0) not in ends
    for value in (np.nan, -np.inf):
        row[3] = value
        with pytest.raises(InvalidLogitsError):
            pick(3)


def test_a_mask_that_allows_nothing_and_one_of_another_size_are_refused():
    picker = Picker(GREEDY, N_VOCAB)
    row = np.zeros(N_VOCAB, np.float32)
    with pytest.raises(InvalidLogitsError):
        picker.pick(row, 0, np.zeros(2, np.int32))
    for bad in (np.zeros(3, np.int32), np.zeros(2, np.int64), np.zeros((1, 2), np.int32), [1, 2]):
        with pytest.raises(InvalidArgumentError, match="mask"):
            picker.pick(row, 0, bad)
