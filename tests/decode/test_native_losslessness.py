"""The losslessness contract with the native engine: real caches, bit for bit, in every family."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest

import maglio
from maglio.decode import Picker
from maglio.draft.registry import calibrated
from maglio.engine.native import NativeEngine
from maglio.engine.session import Session
from support.decoder import Decoder
from support.decoding import GREEDY, SAMPLED
from support.models import FAMILIES
from support.spm_vocabulary import SPM
from support.tiny import TinyModels, random_tokens
from support.toy_sources import adversaries
from support.vocabulary_model import write_vocabulary_model

N_TOKENS = 40


def prompt_of(engine: NativeEngine) -> list[int]:
    return random_tokens(engine.n_vocab, 45, 4)  # the answer crosses a block of 64 positions


def decode(
    engine: NativeEngine, params: maglio.SamplingParams, source: object = None, **options: object
) -> tuple[list[int], Decoder]:
    decoder = Decoder(engine, Picker(params, engine.n_vocab), source, max_draft=12)
    options = {"max_tokens": N_TOKENS, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of sources that raise
        tokens = [token.id for token in decoder.generate(prompt_of(engine), **options)]
    return tokens, decoder


def check_state(engine: NativeEngine, decoder: Decoder, generated: int) -> None:
    """One draw per token, no unverified row in the cache, and every row that of plain decoding."""
    stream = list(decoder.tokens)
    decoder.settle()
    assert decoder.sequence.position == generated
    assert decoder.cache.length == len(stream) - 1
    fresh = Session(engine)
    fresh.prefill(stream[:-1])
    after = Session(engine, decoder.cache)
    ours, theirs = (session.forward([stream[-1], 5]) for session in (after, fresh))
    np.testing.assert_array_equal(ours.view(np.uint32), theirs.view(np.uint32))


@pytest.mark.parametrize("kind", adversaries([], 50))
@pytest.mark.parametrize("family", FAMILIES)
def test_no_source_can_change_the_stream_or_the_cache(
    tiny: TinyModels, family: str, kind: str
) -> None:
    engine = tiny.engine(family, "Q4_0", threads=2)
    for params in (GREEDY, SAMPLED):
        plain, _ = decode(tiny.engine(family, "Q4_0"), params)
        stream = [*prompt_of(engine), *plain]
        tokens, decoder = decode(engine, params, adversaries(stream, engine.n_vocab)[kind])
        assert tokens == plain
        check_state(engine, decoder, N_TOKENS)


@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("kind", ["perfect", "over-long", "wrong in the middle"])
def test_a_stop_within_a_draft_leaves_no_row_behind_it(
    tiny: TinyModels, params: maglio.SamplingParams, kind: str
) -> None:
    engine = tiny.engine("gemma3", "Q4_0")
    plain, _ = decode(engine, params)
    stream = [*prompt_of(engine), *plain]
    for stop in sorted(set(plain)):
        wanted = plain[: plain.index(stop) + 1]
        source = adversaries(stream, engine.n_vocab)[kind]
        tokens, decoder = decode(engine, params, source, stop_tokens=[stop])
        assert tokens == wanted
        assert decoder.finish_reason == "stop"
        check_state(engine, decoder, len(wanted))


@pytest.mark.parametrize(
    "source", ["record", calibrated(recycling=True)], ids=["record", "calibrated"]
)
@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_stop_strings_cut_the_same_text_with_drafts_and_without(
    tmp_path_factory: pytest.TempPathFactory, params: maglio.SamplingParams, source: object
) -> None:
    path = write_vocabulary_model(tmp_path_factory.mktemp("model") / "model.gguf", SPM)
    model = maglio.load(path)
    prompts = ["".join(letters) for letters in product("abc", repeat=3)]
    drafted = 0
    for prompt in prompts:
        whole = model.generate(prompt, max_tokens=40, sampling=params, speculation=False)
        stop = whole.text[len(whole.text) // 2 :][:2]
        if not stop:
            continue
        runs = [
            model.generate(prompt, max_tokens=40, sampling=params, stop=[stop], speculation=how)
            for how in (False, maglio.Speculation(source=source, gate=False, history=False))
        ]
        assert runs[0].tokens == runs[1].tokens
        assert runs[0].text == runs[1].text == whole.text[: whole.text.index(stop)]
        assert {run.finish_reason for run in runs} == {"stop"}
        drafted += runs[1].stats.drafted
    assert drafted > 0
