"""Speculation is invisible: same tokens, same random stream, same history, same cache."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio.decode import Picker, SamplingParams
from support.decoder import Decoder
from support.decoding import GREEDY, PROMPT, SAMPLED, draft_tokens, ids, plain_run
from support.toy_engine import ToyEngine
from support.toy_sources import ScriptedSource, adversaries, perfect

RUNS = {
    "greedy": plain_run(GREEDY),
    "greedy with penalties": plain_run(
        SamplingParams(repeat_penalty=1.3, frequency_penalty=0.2), order=1
    ),
    "sampled": plain_run(SAMPLED),
    "sampled, repetitive model": plain_run(SAMPLED, order=1, n_vocab=50, spread=9.0),
    "sampled, temperature last": plain_run(
        SamplingParams(
            temperature=1.4,
            top_n_sigma=1.5,
            typical_p=0.9,
            min_p=0.05,
            min_keep=3,
            dry_multiplier=0.9,
            dry_allowed_length=1,
            dry_breakers=(7,),
            order="llama.cpp",
            seed=8,
        ),
        order=1,
        n_vocab=50,
        spread=9.0,
    ),
    "sampled, XTC": plain_run(
        SamplingParams(temperature=0.9, xtc_probability=0.5, min_p=0.02, seed=4)
    ),
    "greedy, DRY": plain_run(SamplingParams(dry_multiplier=2.0), order=1, n_vocab=50),
    "sampled, whole vocabulary": plain_run(SamplingParams(temperature=1.0, seed=3), n_vocab=300),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS.keys())
@pytest.mark.parametrize("kind", adversaries([], 50).keys())
def test_no_source_can_change_the_stream(run, kind):
    source = adversaries(run.stream, run.engine().n_vocab)[kind]
    decoder = run.decoder(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        tokens = ids(decoder.generate(PROMPT, max_tokens=60))
    assert tokens == run.output
    run.check(decoder, generated=60)
    assert decoder.finish_reason == "length"


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_script_of_drafts_can_change_the_stream(data):
    run = data.draw(st.sampled_from(list(RUNS.values())))
    n_vocab = run.engine().n_vocab
    right = st.integers(0, 9)
    junk = st.lists(st.integers(-1, n_vocab), max_size=4)
    script = data.draw(st.lists(st.tuples(right, junk), min_size=1, max_size=12))
    max_draft = data.draw(st.integers(1, 12))
    n_tokens = data.draw(st.integers(0, 60))

    def draft(truth: list[int], call: int) -> list[int]:
        n, tail = script[call % len(script)]
        return truth[:n] + tail

    decoder = run.decoder(ScriptedSource(run.stream, draft), max_draft=max_draft)
    assert ids(decoder.generate(PROMPT, max_tokens=n_tokens)) == run.output[:n_tokens]
    run.check(decoder, generated=n_tokens)


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS.keys())
def test_a_perfect_source_saves_forwards(run):
    decoder = run.decoder(perfect(run.stream, 5))
    list(decoder.generate(PROMPT, max_tokens=60))
    assert len(decoder.engine.forwards) == 10  # 1 token by the prefill, 9 steps of 6, 1 of 5
    stats = decoder.stats
    assert stats.acceptance_rate == 1.0
    assert stats.committed == 60
    assert stats.steps == 11


def test_rows_that_plain_decoding_does_not_compute_are_never_sampled():
    # The position would be right even so; the count of samples tells.
    run = RUNS["sampled"]
    source = adversaries(run.stream, 60)["wrong in the middle"]
    decoder = run.decoder(source)
    sampled: list[np.ndarray] = []

    class Counting(Picker):
        def pick(self, row, position, mask=None):
            assert position == len(sampled)
            sampled.append(row.copy())
            return super().pick(row, position, mask)

    decoder.sequence.picker = Counting(SAMPLED, 60)
    list(decoder.generate(PROMPT, max_tokens=40))
    assert len(sampled) == 40
    assert draft_tokens(decoder.engine.forwards) > 40  # there were rows to be tempted by
    for index, row in enumerate(sampled):
        expected = run.engine().row(run.stream[: len(PROMPT) + index])
        np.testing.assert_array_equal(row, expected)


def test_penalties_see_the_tokens_accepted_in_the_same_step():
    params = SamplingParams(temperature=0.7, seed=2, frequency_penalty=3.0, repeat_penalty=1.5)
    run = plain_run(params, order=1, n_vocab=50, spread=8.0)
    decoder = run.decoder(perfect(run.stream, 5))
    assert ids(decoder.generate(PROMPT, max_tokens=60)) == run.output

    # The same rows with the history of the step's beginning give at least one other pick, so
    # the equality above is not vacuous.
    stale = []
    for start in range(1, 60, 6):
        for index in range(start, min(start + 6, 60)):
            picker = run.picker()
            stream = run.stream[: len(PROMPT) + start]
            picker.follow(stream, kept=0, answer=len(PROMPT))
            stale.append(picker.pick(run.engine().row(run.stream[: len(PROMPT) + index]), index))
    assert stale != run.output[1:]


@pytest.mark.parametrize("params", [GREEDY, SAMPLED])
@pytest.mark.parametrize("n_tokens", range(1, 20))
def test_leaving_off_anywhere_leaves_the_plain_state(params, n_tokens):
    run = plain_run(params)
    decoder = run.decoder(adversaries(run.stream, 60)["wrong in the middle"])
    generation = decoder.generate(PROMPT, max_tokens=60)
    taken = [next(generation).id for _ in range(n_tokens)]
    generation.close()
    assert taken == run.output[:n_tokens]
    run.check(decoder, generated=n_tokens)
    rest = ids(decoder.generate((), max_tokens=60 - n_tokens))
    assert taken + rest == run.output


def test_a_generation_cut_into_pieces_is_the_whole_one():
    run = RUNS["sampled"]
    decoder = run.decoder(adversaries(run.stream, 60)["alternating"])
    tokens = ids(decoder.generate(PROMPT, max_tokens=7))
    for size in (1, 0, 12, 2, 38):
        tokens += ids(decoder.generate((), max_tokens=size))
    assert tokens == run.output
    run.check(decoder, generated=60)


@pytest.mark.parametrize("kind", ["perfect", "wrong in the middle", "garbage"])
def test_turns_of_a_conversation_are_those_of_one_stream(kind):
    turns = [(PROMPT, 11), ((1, 2), 9), ((8,), 1), ((4, 4, 4), 15)]
    engine, picker = ToyEngine(), Picker(SAMPLED, 60)
    stream: list[int] = []
    drawn = 0
    for prompt, n_tokens in turns:
        # Definition: the history is the stream so far, the answer what came after its prompt, and
        # every token takes one number.
        stream += prompt
        answer = len(stream)
        for _ in range(n_tokens):
            picker.follow(stream, kept=len(stream), answer=answer)
            stream.append(picker.pick(engine.row(stream), drawn))
            drawn += 1

    source = adversaries(stream, 60)[kind]
    decoder = Decoder(ToyEngine(), Picker(SAMPLED, 60), source)
    for prompt, n_tokens in turns:
        list(decoder.generate(prompt, max_tokens=n_tokens))
    assert list(decoder.tokens) == stream
    assert decoder.sequence.position == drawn
    decoder.settle()
    assert decoder.cache.tokens == stream[:-1]
    assert source.seen == stream[: len(source.seen)]
