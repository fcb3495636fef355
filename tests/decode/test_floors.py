"""Caches that go back only into the last forward and to kept places: hybrids, as a toy."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maglio.decode
from maglio.decode import Picker, Scheduler, Sequence
from maglio.economics.cost import NATIVE_COST
from maglio.economics.live_cost import LiveCost
from maglio.engine.session import Session
from support.decoding import GREEDY, PROMPT, SAMPLED, ids, plain_run
from support.interrupts import interrupt_at
from support.toy_engine import ToyEngine, decode_plainly
from support.toy_sources import ScriptedSource, adversaries

RUNS = {"greedy": plain_run(GREEDY, is_hybrid=True), "sampled": plain_run(SAMPLED, is_hybrid=True)}
DECODE = str(Path(maglio.decode.__file__).parent)


def fed(engine: ToyEngine) -> list[list[tuple]]:
    return [[(segment.tokens, segment.n_logits) for segment in call] for call in engine.calls]


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS.keys())
@pytest.mark.parametrize("kind", adversaries([], 60))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_source_can_change_the_stream_nor_cost_a_forward_more(run, kind):
    decoders = []
    for is_hybrid in (True, False):
        source = adversaries(run.stream, 60)[kind]
        decoder = run.decoder(source, is_hybrid=is_hybrid)
        assert ids(decoder.generate(PROMPT, max_tokens=60)) == run.output
        run.check(decoder, generated=60)
        decoders.append(decoder)
    hybrid, other = decoders
    assert fed(hybrid.engine) == fed(other.engine)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_cuts_and_continuations_give_the_plain_stream(data):
    """Any mix of generating, leaving off, and going back to any length."""
    run = RUNS["greedy"]
    n_right = data.draw(st.integers(0, 9))
    source = ScriptedSource(run.stream, lambda truth, _: [*truth[:n_right], 1, 2])
    decoder = run.decoder(source)
    generated = 0
    for _ in range(data.draw(st.integers(1, 6))):
        n = data.draw(st.integers(0, min(12, 60 - generated)))
        generation = decoder.generate(() if decoder.tokens else PROMPT, max_tokens=n)
        left_at = data.draw(st.integers(0, n))
        for _ in zip(range(left_at), generation, strict=False):
            pass
        generation.close()
        if data.draw(st.booleans()):
            decoder.cache.keep()
        generated = max(0, len(decoder.tokens) - len(PROMPT))
        if generated and data.draw(st.booleans()):
            back = data.draw(st.integers(0, generated))
            decoder.rewind(len(PROMPT) + back)
            generated = back
        assert list(decoder.tokens) == run.stream[: len(PROMPT) + generated]
    rest = 60 - generated
    assert (
        ids(decoder.generate(() if decoder.tokens else PROMPT, max_tokens=rest))
        == (run.output[generated:])
    )
    decoder.settle()
    assert decoder.cache.tokens in (run.stream[:-1], run.stream)


def test_an_interrupt_at_any_line_leaves_a_stream_that_goes_on():
    run = RUNS["sampled"]
    for line in range(1, 5000):
        decoder = run.decoder(adversaries(run.stream, 60)["wrong in the middle"])
        came = False
        try:
            with interrupt_at(line, DECODE):
                list(decoder.generate(PROMPT, max_tokens=5))
        except KeyboardInterrupt:
            came = True
        begun = len(decoder.tokens) > 0
        left = 5 - max(0, len(decoder.tokens) - len(PROMPT))
        list(decoder.generate(() if begun else PROMPT, max_tokens=left))
        assert [*decoder.tokens] == run.stream[: len(PROMPT) + 5]
        if not came:
            return


def test_sequences_that_give_their_memory_back_start_from_the_shared_beginning():
    engine = ToyEngine(is_hybrid=True, capacity=120)
    shared = list(range(20))
    session = Session(engine)
    session.prefill(shared)
    session.cache.keep()
    scheduler = Scheduler(engine, LiveCost(NATIVE_COST))
    prompts = [[*shared, 30 + i, 7] for i in range(4)]
    sequences = []
    for prompt in prompts:
        cache = session.cache.fork(20)
        sequence = Sequence(cache, Picker(GREEDY, 60), n_ctx=engine.n_ctx, tokens=prompt[:20])
        sequence.begin(prompt[20:], max_tokens=12)
        scheduler.add(sequence)
        sequences.append(sequence)
    del session
    while len(scheduler):
        for progress in scheduler.step():
            assert progress.error is None
            list(progress.sequence.take())
            if progress.sequence.finish_reason is not None:
                progress.sequence.evict(release=True)
    for prompt, sequence in zip(prompts, sequences, strict=True):
        expected = decode_plainly(ToyEngine(), Picker(GREEDY, 60), prompt, 12)
        assert list(sequence.tokens) == prompt + expected
