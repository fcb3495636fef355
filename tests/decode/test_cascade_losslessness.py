"""With every source at work, and muted, the stream is the plain one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from maglio.draft.options import IndexOptions

import maglio
from maglio.decode import SamplingParams
from maglio.draft.cascade import SpeculationIndex
from maglio.economics.cost import FLAT_COST
from support.decoding import GREEDY, PROMPT, SAMPLED, ids, plain_run
from support.models import TINY, Family, write_model

N_TOKENS = 160
RUNS = {
    "greedy": plain_run(SamplingParams(repeat_penalty=1.05), N_TOKENS, order=1, n_vocab=50),
    "greedy, no repetition": plain_run(GREEDY, N_TOKENS),
    "sampled, repetitive": plain_run(SAMPLED, N_TOKENS, order=1, n_vocab=50, spread=12.0),
    "sampled": plain_run(SAMPLED, N_TOKENS),
}
OPTIONS = {
    "record": IndexOptions(),
    "record, muting all the time": IndexOptions(window=6, min_acceptance=0.9, mute_for=7),
    "calibrated": IndexOptions(policy="calibrated", cost=FLAT_COST),
    "calibrated, eager": IndexOptions(policy="calibrated", cost=FLAT_COST, min_match=1, margin=0),
}


def documents(stream: list[int], n_vocab: int) -> list[list[int]]:
    """What comes, but for some tokens; something else."""
    rng = np.random.default_rng(0)
    spoilt = [t if i % 13 else (t + 1) % n_vocab for i, t in enumerate(stream[40:120])]
    return [spoilt, rng.integers(0, n_vocab, size=300).tolist()]


def drive(run, options: IndexOptions):
    session = run.engine()
    index = SpeculationIndex(session.n_vocab, options=options)
    for document in documents(run.stream, session.n_vocab):
        index.add_reference(document)
    min_draft = 1 if options.policy == "calibrated" else 2
    decoder = run.decoder(index, options=DecodeOptions(min_draft=min_draft))
    return decoder, index


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS.keys())
def test_the_cascade_cannot_change_the_stream(run, options):
    decoder, _ = drive(run, options)
    assert ids(decoder.generate(PROMPT, max_tokens=N_TOKENS)) == run.output
    run.check(decoder, generated=N_TOKENS)
    assert decoder.stats.source_error is None


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_references_may_come_and_go_between_generations(options):
    run = RUNS["sampled, repetitive"]
    decoder, index = drive(run, options)
    tokens = ids(decoder.generate(PROMPT, max_tokens=50))
    index.add_reference(run.stream[60:])
    tokens += ids(decoder.generate((), max_tokens=30))
    index.clear_references()
    tokens += ids(decoder.generate((), max_tokens=N_TOKENS - 80))
    assert tokens == run.output
    run.check(decoder, generated=N_TOKENS)


def test_those_runs_use_every_source_and_mute():
    accepted: set[str] = set()
    muted: set[str] = set()
    for run in RUNS.values():
        for options in OPTIONS.values():
            decoder, index = drive(run, options)
            for _ in decoder.generate(PROMPT, max_tokens=N_TOKENS):
                muted |= {name for name, counts in index.counts().items() if counts.muted}
            accepted |= {n for n, counts in decoder.stats.sources.items() if counts.accepted}
    assert {"conversation", "reference:0", "recycling"} <= accepted
    assert {"conversation", "reference:0", "recycling"} <= muted


def test_what_the_source_counts_is_what_the_decoder_counts():
    for run in RUNS.values():
        decoder, index = drive(run, IndexOptions())
        list(decoder.generate(PROMPT, max_tokens=N_TOKENS))
        assert dict(decoder.stats.sources) == dict(index.counts())


@pytest.fixture(scope="module", params=["llama", "gemma3"])
def model(request, tmp_path_factory) -> maglio.Model:
    family: Family = request.param
    path: Path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    write_model(path, family, TINY[family], "Q4_0")
    return maglio.load(path, n_ctx=256, threads=2)


@pytest.mark.parametrize("policy", ["record", "calibrated"])
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_a_real_engine_gives_the_plain_tokens_with_every_source(model, sampling, policy):
    prompt = [5, 9, 5, 9, 7, 5, 9]
    plain = model.generate(prompt, max_tokens=100, sampling=sampling, speculation=False)
    how = maglio.Speculation(
        policy=policy, recycling=True, cost=FLAT_COST, window=8, mute_for=16, gate=False
    )
    quoted = [*plain.tokens[30:60], 1, 2, *plain.tokens[60:90]]
    fast = model.generate(
        prompt, max_tokens=100, sampling=sampling, speculation=how, references=[quoted, prompt]
    )
    assert fast.tokens == plain.tokens
    assert fast.stats.accepted > 10
    assert fast.stats.steps < plain.stats.steps
