"""Log-probabilities are the model's own, and the same however tokens were drafted and chosen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio import _core
from maglio.decode import Drafter, Picker, run
from maglio.decode import Sequence as TokenSequence
from maglio.decode.logprob import logprob_of
from maglio.errors import InvalidArgumentError
from support.decoding import GREEDY, PROMPT, SAMPLED
from support.toy_constraint import ToyConstraint
from support.toy_engine import ToyEngine, decode_plainly
from support.toy_sources import perfect

N_VOCAB = 60


def log_softmax(row: np.ndarray) -> np.ndarray:
    wide = row.astype(np.float64)
    wide -= wide.max()
    return wide - np.log(np.exp(wide).sum())


@settings(max_examples=150, deadline=None)
@given(
    n_vocab=st.sampled_from([1, 2, 63, 64, 65, 1000]),
    seed=st.integers(0, 999),
    spread=st.sampled_from([0.0, 1.0, 20.0]),
    n_top=st.integers(0, 7),
)
def test_they_are_the_log_softmax_of_the_row(n_vocab, seed, spread, n_top):
    row = (np.random.default_rng(seed).normal(size=n_vocab) * spread).astype(np.float32)
    exact = log_softmax(row)
    token = seed % n_vocab
    found = logprob_of(row, token, n_top)
    assert found.logprob == pytest.approx(exact[token], abs=1e-5)
    order = np.lexsort((np.arange(n_vocab), -row))[:n_top]
    assert [one for one, _ in found.top] == order.tolist()
    assert [p for _, p in found.top] == pytest.approx(exact[order], abs=1e-5)
    assert dict(found.top).get(token, found.logprob) == found.logprob


def test_an_impossible_token_and_a_row_of_nothing_have_no_number():
    row = np.array([0.0, -np.inf, 1.0], np.float32)
    assert logprob_of(row, 1, 0).logprob == -np.inf
    assert np.isnan(_core.log_mass(np.array([0.0, np.nan], np.float32)))
    assert _core.log_mass(np.array([-np.inf, -np.inf], np.float32)) == -np.inf


def begun(engine, params, source=None, constraint=None, **options) -> TokenSequence:
    drafter = None if source is None else Drafter(source, N_VOCAB)
    picker = Picker(params, N_VOCAB)
    sequence = TokenSequence(engine.new_cache(), picker, drafter, n_ctx=engine.n_ctx)
    sequence.begin(PROMPT, max_tokens=30, constraint=constraint, **options)
    return sequence


@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_drafts_penalties_and_interruptions_do_not_change_them(params):
    output = decode_plainly(ToyEngine(), Picker(params, N_VOCAB), PROMPT, 30)
    engine = ToyEngine()
    plain = [token.logprob for token in run(engine, begun(engine, params, logprobs=3))]
    for n, (token, found) in enumerate(zip(output, plain, strict=True)):
        assert found == logprob_of(engine.row([*PROMPT, *output[:n]]), token, 3)
    drafted = begun(engine, params, perfect([*PROMPT, *output]), logprobs=3)
    assert [token.logprob for token in run(engine, drafted)] == plain
    torn = begun(engine, params, perfect([*PROMPT, *output]), logprobs=3)
    got = []
    while torn.finish_reason is None:
        for token in run(engine, torn):
            got.append(token.logprob)
            if len(got) % 4 == 1:
                break  # what was committed beyond is picked again
    assert got == plain


def test_under_a_constraint_they_are_of_the_unmasked_row():
    engine = ToyEngine()
    sequence = begun(engine, SAMPLED, constraint=ToyConstraint(N_VOCAB), logprobs=0)
    tokens = list(run(engine, sequence))
    for n, token in enumerate(tokens):
        before = [*PROMPT, *(earlier.id for earlier in tokens[:n])]
        assert token.logprob == logprob_of(engine.row(before), token.id, 0)


def test_nobody_who_did_not_ask_pays_for_them():
    engine = ToyEngine()
    assert {token.logprob for token in run(engine, begun(engine, GREEDY))} == {None}


@pytest.mark.parametrize("bad", [-1, 101, 1.5, True])
def test_a_number_of_alternatives_that_cannot_be_is_refused(bad):
    with pytest.raises(InvalidArgumentError, match="logprobs"):
        begun(ToyEngine(), GREEDY, logprobs=bad)
