"""With every source at work, and muted, the stream is the plain one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import maglio
from maglio.decode import SamplingParams
from maglio.draft.record import RecordOptions
from maglio.draft.registry import Setting, calibrated, record
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
SOURCES = {
    "record": record(),
    "record, muting all the time": record(RecordOptions(window=6, min_acceptance=0.9, mute_for=7)),
    "calibrated": calibrated(recycling=True),
    "calibrated, eager": calibrated(recycling=True, margin=0.0),
}


def documents(stream: list[int], n_vocab: int) -> list[list[int]]:
    """What comes, but for some tokens; something else."""
    rng = np.random.default_rng(0)
    spoilt = [t if i % 13 else (t + 1) % n_vocab for i, t in enumerate(stream[40:120])]
    return [spoilt, rng.integers(0, n_vocab, size=300).tolist()]


def drive(run, make):
    n_vocab = run.engine().n_vocab
    index = make(Setting(n_vocab=n_vocab, cost=FLAT_COST))
    for document in documents(run.stream, n_vocab):
        index.add_reference(document)
    return run.decoder(index), index


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES.keys())
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS.keys())
def test_the_cascade_cannot_change_the_stream(run, make):
    decoder, _ = drive(run, make)
    assert ids(decoder.generate(PROMPT, max_tokens=N_TOKENS)) == run.output
    run.check(decoder, generated=N_TOKENS)
    assert decoder.stats.source_error is None


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES.keys())
def test_references_may_come_and_go_between_generations(make):
    run = RUNS["sampled, repetitive"]
    decoder, index = drive(run, make)
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
        for make in SOURCES.values():
            decoder, index = drive(run, make)
            for _ in decoder.generate(PROMPT, max_tokens=N_TOKENS):
                muted |= {name for name, is_muted in index.parts().items() if is_muted}
            accepted |= {n for n, counts in decoder.stats.sources.items() if counts.accepted}
    assert {"conversation", "reference:0", "recycling"} <= accepted
    assert {"conversation", "reference:0", "recycling"} <= muted


@pytest.fixture(scope="module", params=["llama", "gemma3"])
def model(request, tmp_path_factory) -> maglio.Model:
    family: Family = request.param
    path: Path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    write_model(path, family, TINY[family], "Q4_0")
    return maglio.load(path, n_ctx=256, threads=2)


@pytest.mark.parametrize("name", ["record", "calibrated", "calibrated, eager"])
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_a_real_engine_gives_the_plain_tokens_with_every_source(model, sampling, name):
    prompt = [5, 9, 5, 9, 7, 5, 9]
    plain = model.generate(prompt, max_tokens=100, sampling=sampling, speculation=False)
    how = maglio.Speculation(source=SOURCES[name], cost=FLAT_COST, gate=False, history=False)
    quoted = [*plain.tokens[30:60], 1, 2, *plain.tokens[60:90]]
    fast = model.generate(
        prompt, max_tokens=100, sampling=sampling, speculation=how, references=[quoted, prompt]
    )
    assert fast.tokens == plain.tokens
    assert fast.stats.accepted > 10
    assert fast.stats.steps < plain.stats.steps
