"""Where rows drift with what is computed beside them, a guarded stream is still the plain one."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maglio.decode
from maglio.decode import Drafter, MarginGuard, Picker, SamplingParams, Scheduler, Sequence
from maglio.economics.cost import FLAT_COST
from maglio.economics.live_cost import LiveCost
from maglio.errors import InvalidArgumentError, InvalidLogitsError
from support.decoder import Decoder
from support.decoding import GREEDY, SAMPLED, ids
from support.interrupts import interrupt_at
from support.toy_engine import ToyEngine, decode_plainly
from support.toy_sources import adversaries, perfect

N_VOCAB = 60
DRIFT = 0.05
DECODE = str(Path(maglio.decode.__file__).parent)
SETTINGS = {
    "greedy": GREEDY,
    "greedy, penalties": SamplingParams(repeat_penalty=1.4, frequency_penalty=0.3),
    "sampled": SAMPLED,
    "sampled, whole vocabulary": SamplingParams(temperature=1.0, seed=3),
    "sampled, temperature last": SamplingParams(
        temperature=0.7, top_k=20, min_p=0.05, order="llama.cpp", seed=8
    ),
}
PROMPTS = [tuple((seed * 7 + index * 13) % N_VOCAB for index in range(6)) for seed in range(12)]


def plain(params, prompt, n=40):
    return decode_plainly(ToyEngine(), Picker(params, N_VOCAB), prompt, n)


def decoded(params, prompt, truth, *, guard=DRIFT, kind=None, drift=DRIFT, **engine):
    picker = Picker(params, N_VOCAB)
    stream = [*prompt, *truth]
    source = perfect(stream) if kind is None else adversaries(stream, N_VOCAB)[kind]
    decoder = Decoder(
        ToyEngine(drift=drift, **engine),
        picker,
        source,
        cost=LiveCost(FLAT_COST),
        clock=None,
        guard=None if guard is None else MarginGuard(picker, guard),
    )
    return decoder, ids(decoder.generate(prompt, max_tokens=len(truth)))


@pytest.mark.parametrize("params", SETTINGS.values(), ids=SETTINGS.keys())
def test_without_the_guard_tokens_flip_and_with_it_none_does(params):
    flipped, recomputed, committed = 0, 0, 0
    for prompt in PROMPTS:
        truth = plain(params, prompt)
        flipped += decoded(params, prompt, truth, guard=None)[1] != truth
        decoder, tokens = decoded(params, prompt, truth)
        assert tokens == truth
        recomputed += decoder.stats.recomputed
        committed += decoder.stats.committed
    assert flipped >= 2
    assert 0 < recomputed < committed


@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("kind", adversaries([], N_VOCAB).keys())
@pytest.mark.parametrize("is_hybrid", [False, True])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_source_can_change_a_guarded_stream(params, kind, is_hybrid):
    for prompt in PROMPTS[:3]:
        truth = plain(params, prompt)
        _, tokens = decoded(params, prompt, truth, kind=kind, is_hybrid=is_hybrid)
        assert tokens == truth


def test_a_close_row_is_computed_alone_and_nothing_else_is():
    prompt = PROMPTS[0]
    decoder, tokens = decoded(GREEDY, prompt, plain(GREEDY, prompt))
    fed = [len(segment.tokens) for [segment] in decoder.engine.calls]
    after_wide = sum(n == 1 < before for before, n in pairwise(fed))
    # The last token of a generation may have no draft beside it anyway.
    assert 0 <= after_wide - decoder.stats.recomputed <= 1
    assert decoder.stats.prompt_tokens == len(prompt)
    assert decoder.stats.committed == len(tokens)


def test_where_nothing_drifts_nothing_is_computed_again():
    truth = plain(SAMPLED, PROMPTS[0])
    decoder, tokens = decoded(SAMPLED, PROMPTS[0], truth, guard=0.0, drift=0.0)
    assert tokens == truth
    assert decoder.stats.recomputed == 0


def test_a_drift_without_bound_takes_every_token_from_a_row_alone():
    truth = plain(GREEDY, PROMPTS[0])
    decoder, tokens = decoded(GREEDY, PROMPTS[0], truth, guard=math.inf)
    assert tokens == truth
    assert sum(len(segment.tokens) == 1 for [segment] in decoder.engine.calls) == len(tokens)


@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_many_guarded_streams_are_each_what_they_are_alone(params):
    results = {}
    for guarded in (False, True):
        engine = ToyEngine(drift=DRIFT)
        scheduler = Scheduler(engine, LiveCost(FLAT_COST), prefill_rows=4)
        streams = {}
        for prompt in PROMPTS:
            picker = Picker(params, N_VOCAB)
            guard = MarginGuard(picker, DRIFT) if guarded else None
            drafter = Drafter(perfect([*prompt, *plain(params, prompt)], 3), N_VOCAB)
            sequence = Sequence(
                engine.new_cache(), picker, drafter, n_ctx=engine.n_ctx, guard=guard
            )
            sequence.begin(prompt, max_tokens=40)
            scheduler.add(sequence)
            streams[sequence] = prompt, []
        while len(scheduler):
            for sequence, _, error in scheduler.step():
                assert error is None
                streams[sequence][1].extend(ids(sequence.take()))
        results[guarded] = [got == plain(params, prompt) for prompt, got in streams.values()]
    assert all(results[True])
    assert results[False].count(False) >= 2


def test_memory_that_runs_out_changes_no_guarded_stream():
    engine = ToyEngine(drift=DRIFT, capacity=100)
    scheduler = Scheduler(engine, LiveCost(FLAT_COST))
    streams = {}
    for prompt in PROMPTS[:4]:
        picker = Picker(GREEDY, N_VOCAB)
        sequence = Sequence(
            engine.new_cache(), picker, n_ctx=engine.n_ctx, guard=MarginGuard(picker, DRIFT)
        )
        sequence.begin(prompt, max_tokens=40)
        scheduler.add(sequence)
        streams[sequence] = prompt, []
    while len(scheduler):
        for sequence, _, error in scheduler.step():
            assert error is None
            streams[sequence][1].extend(ids(sequence.take()))
            if sequence.finish_reason is not None:
                sequence.evict()
    for prompt, got in streams.values():
        assert got == plain(GREEDY, prompt)


def test_an_interrupt_at_any_line_changes_no_guarded_stream():
    prompt = PROMPTS[1]
    truth = plain(GREEDY, prompt, 8)
    for line in range(1, 5000, 3):
        picker = Picker(GREEDY, N_VOCAB)
        decoder = Decoder(
            ToyEngine(drift=DRIFT),
            picker,
            perfect([*prompt, *truth]),
            cost=LiveCost(FLAT_COST),
            guard=MarginGuard(picker, 10 * DRIFT),
        )
        came = False
        try:
            with interrupt_at(line, DECODE):
                list(decoder.generate(prompt, max_tokens=8))
        except KeyboardInterrupt:
            came = True
        begun = len(decoder.tokens) > 0
        left = 8 - max(0, len(decoder.tokens) - len(prompt))
        list(decoder.generate(() if begun else prompt, max_tokens=left))
        assert [*decoder.tokens] == [*prompt, *truth]
        if not came:
            return


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    distinct=st.sampled_from([0, 2, 8]),
    drift=st.sampled_from([1e-4, 0.01, 0.1, 0.5]),
    params=st.sampled_from(list(SETTINGS.values())),
    is_masked=st.booleans(),
)
def test_what_stands_is_picked_from_every_row_within_the_drift(
    seed, distinct, drift, params, is_masked
):
    rng = np.random.default_rng(seed)
    row = (rng.standard_normal(N_VOCAB) * 3).astype(np.float32)
    if distinct:
        row = np.round(row * distinct) / np.float32(distinct)
    mask = rng.integers(-(2**31), 2**31, 2).astype(np.int32) if is_masked else None
    if mask is not None:
        mask[0] |= 1
    picker = Picker(params, N_VOCAB)
    picker.extend(rng.integers(0, N_VOCAB, 20).tolist())
    position = int(rng.integers(0, 1000))
    token = picker.pick(row, position, mask)
    if not picker.stands(token, row, position, mask, drift=drift):
        return
    for _ in range(40):
        away = rng.uniform(-drift, drift, N_VOCAB)
        if rng.integers(2):
            away = np.sign(away) * drift  # corners are worse than what lies between them
        assert picker.pick((row + away).astype(np.float32), position, mask) == token


@pytest.mark.parametrize("params", SETTINGS.values(), ids=SETTINGS.keys())
def test_most_choices_stand_when_the_drift_is_small_and_few_when_it_is_large(params):
    rng = np.random.default_rng(5)
    picker = Picker(params, N_VOCAB)
    standing = {1e-5: 0, 3.0: 0}
    for position in range(200):
        row = (rng.standard_normal(N_VOCAB) * 3).astype(np.float32)
        token = picker.pick(row, position)
        for drift in standing:
            standing[drift] += picker.stands(token, row, position, drift=drift)
    assert standing[1e-5] > 190
    assert standing[3.0] < 30


def test_a_choice_without_a_rival_stands():
    picker = Picker(GREEDY, 64)
    row = np.zeros(64, np.float32)
    mask = np.array([1 << 5, 0], np.int32)
    assert picker.stands(5, row, 0, mask, drift=100.0)
    assert not picker.stands(0, row, 0, drift=1e-6)


def test_what_cannot_be_judged_is_refused():
    picker = Picker(GREEDY, 8)
    row = np.zeros(8, np.float32)
    for arguments in ((8, row, 0), (-1, row, 0), (0, row[:7], 0), (0, row.astype(np.float64), 0)):
        with pytest.raises(InvalidArgumentError):
            picker.stands(*arguments, drift=1.0)
    for drift in (-1.0, math.nan):
        with pytest.raises(InvalidArgumentError, match="drift"):
            picker.stands(0, row, 0, drift=drift)
        with pytest.raises(InvalidArgumentError, match="drift"):
            MarginGuard(picker, drift)
    row[3] = np.nan
    with pytest.raises(InvalidLogitsError):
        Picker(SAMPLED, 8).stands(0, row, 0, drift=1.0)
