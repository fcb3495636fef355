"""Models of the transformers library keep what is asked of an engine."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import maglio
from maglio.economics.cost import FLAT_COST
from maglio.engine.base import Segment
from maglio.engine.conformance import CLAIMS, an_interrupt_leaves_a_usable_cache
from maglio.engine.session import Session
from maglio.engine.transformers import TransformersEngine
from maglio.errors import InvalidArgumentError, OutOfMemoryError

FAMILIES = ("llama", "qwen3", "gemma3", "gemma4", "qwen3.5")
TOKENS = [(7 + index * 79) % 280 for index in range(40)]
# At every line of the adapter, so once for each kind of cache.
QUICK = [claim for claim in CLAIMS.values() if claim is not an_interrupt_leaves_a_usable_cache]


def engine_of(checkpoints, family: str, dtype=torch.float32) -> TransformersEngine:
    return TransformersEngine(checkpoints.model(family, dtype), n_ctx=128, max_rows=64)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_claims_of_every_engine_hold(checkpoints, family):
    engine = engine_of(checkpoints, family)
    assert engine.can_rewind == (family != "qwen3.5")
    for claim in QUICK:
        claim(engine)


@pytest.mark.parametrize("family", ["gemma3", "qwen3.5"])
def test_an_interrupt_at_any_line_leaves_a_usable_cache(checkpoints, family):
    an_interrupt_leaves_a_usable_cache(engine_of(checkpoints, family))


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_are_those_of_the_model_but_for_rounding(checkpoints, family):
    engine = engine_of(checkpoints, family)
    with torch.no_grad():
        expected = engine.model(torch.tensor([TOKENS]), use_cache=False).logits[0].numpy()
    scale = np.abs(expected).max()
    pieces = Session(engine)
    rows = np.concatenate([pieces.forward(TOKENS[a : a + 3]) for a in range(0, 40, 3)])
    assert np.abs(rows - expected).max() < 1e-4 * scale


@pytest.mark.parametrize("family", FAMILIES)
def test_what_was_cut_off_leaves_no_trace(checkpoints, family):
    engine = engine_of(checkpoints, family)
    expected = Session(engine).forward(TOKENS)
    session = Session(engine)
    session.forward(TOKENS[:20])
    session.cache.keep()
    session.forward([1, 2, 3, 4, 5])
    kept = session.truncate(20)
    assert kept == 20
    branch = session.fork()
    branch.forward([9, 9, 9])
    rows = session.forward(TOKENS[20:])
    assert np.abs(rows - expected[20:]).max() < 1e-4 * np.abs(expected).max()


def test_a_forward_that_fails_leaves_every_cache_as_it_was(checkpoints, monkeypatch):
    engine = engine_of(checkpoints, "llama")
    caches = [engine.new_cache(), engine.new_cache()]
    for cache in caches:
        engine.forward([Segment(cache, TOKENS[:4], 0)])
    layer = engine.model.model.layers[1]
    calls = []

    def fail(_module, _inputs):
        calls.append(1)
        if len(calls) == 2:  # in the second segment, when its first layer has been computed
            raise torch.OutOfMemoryError("none left")

    hook = layer.register_forward_pre_hook(fail)
    with pytest.raises(OutOfMemoryError, match="none left"):
        engine.forward([Segment(cache, TOKENS[4:6], 1) for cache in caches])
    hook.remove()
    expected = Session(engine).forward(TOKENS[:10])[4:]
    for cache in caches:
        assert cache.length == 4
        [rows] = engine.forward([Segment(cache, TOKENS[4:10], 6)])
        assert np.abs(rows - expected).max() < 1e-4 * np.abs(expected).max()


def test_a_model_with_an_encoder_is_refused(checkpoints):
    model = checkpoints.model("llama")
    model.config.is_encoder_decoder = True
    try:
        with pytest.raises(InvalidArgumentError, match="has an encoder"):
            TransformersEngine(model)
    finally:
        model.config.is_encoder_decoder = False


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_drafting_changes_no_token(checkpoints, family, temperature):
    """Rows of float64 differ in their last bits, which float32 mostly does not show."""
    model = maglio.load(checkpoints.folder(family, torch.float64), engine="auto", n_ctx=128)
    assert model.engine.isa == "cpu torch.float64"
    sampling = maglio.SamplingParams(temperature=temperature, seed=5)
    prompt = TOKENS[:12] * 2
    plain = model.generate(prompt, max_tokens=40, sampling=sampling, speculation=False)
    answer = [*prompt, *plain.tokens]
    how = maglio.Speculation(gate=False, history=False, cost=FLAT_COST)
    drafted = model.generate(
        prompt, max_tokens=40, sampling=sampling, speculation=how, references=[answer]
    )
    assert drafted.tokens == plain.tokens
    assert drafted.text == plain.text
    if model.engine.can_rewind:
        assert drafted.stats.steps < plain.stats.steps / 2
    else:
        assert drafted.stats.steps == plain.stats.steps
