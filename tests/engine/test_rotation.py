"""Rotations beyond the plain one: YaRN, a part of a head, factors by the length of sessions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from maglio.engine.native import NativeEngine
from maglio.engine.native.rotation import Yarn, frequencies
from maglio.engine.session import Session
from maglio.gguf import ModelFile
from support.gguf_bytes import RawGguf, RawTensor
from support.goldens import log_softmax
from support.models import FAMILIES, TINY, write_model
from support.reference import Reference
from support.tiny import TinyModels, random_tokens
from support.workshop import F32, LIMIT, Workshop

WITH_YARN = [f for f in FAMILIES if f not in ("gemma2", "gemma3", "gemma4", "phi3", "exaone4")]


def distance(engine: NativeEngine, reference: Reference, n: int = 100) -> float:
    tokens = random_tokens(engine.n_vocab, n, 1)
    ours = log_softmax(Session(engine).forward(tokens))
    theirs = log_softmax(reference.logits(tokens))
    return float((np.exp(theirs) * (theirs - ours)).sum(axis=1).mean())


def ask_for_yarn(raw: RawGguf, family: str) -> None:
    raw.set(f"{family}.rope.scaling.type", "yarn")
    raw.set(f"{family}.rope.scaling.factor", 8.0)
    raw.set(f"{family}.rope.scaling.original_context_length", 64)


@pytest.mark.parametrize("family", WITH_YARN)
def test_yarn_is_that_of_the_reference(workshop: Workshop, family: str) -> None:
    raw = workshop.raw(family)
    ask_for_yarn(raw, family)
    assert workshop.distance(raw) < LIMIT
    assert workshop.distance(raw, lambda r: setattr(r, "yarn", False)) > 10 * LIMIT


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("yarn_beta_fast", 2.0),
        ("yarn_beta_slow", 0.5),
        ("yarn_log_multiplier", 0.7),
        ("attn_factor", 1.3),
    ],
)
def test_every_key_of_yarn_is_honoured(workshop: Workshop, key: str, value: float) -> None:
    raw = workshop.raw("mistral3")
    plain = Session(workshop.engine(raw)).forward([1, 2, 3, 4])
    raw.set(f"mistral3.rope.scaling.{key}", value)
    assert workshop.distance(raw) < LIMIT
    assert (Session(workshop.engine(raw)).forward([1, 2, 3, 4]) != plain).any()
    if key != "attn_factor":  # llama.cpp reads the others in few families
        raw = workshop.raw("llama")
        ask_for_yarn(raw, "llama")
        plain = Session(workshop.engine(raw)).forward([1, 2, 3, 4])
        raw.set(f"llama.rope.scaling.{key}", value)
        np.testing.assert_array_equal(Session(workshop.engine(raw)).forward([1, 2, 3, 4]), plain)


def test_yarn_keeps_fast_pairs_and_stretches_slow_ones() -> None:
    plain = frequencies(10000.0, 128)
    scaled = Yarn(factor=4.0, original_context=4096).scaled(plain, 10000.0)
    assert scaled[0] == plain[0]
    assert scaled[-1] == plain[-1] / 4.0
    ratio = plain / scaled
    assert (np.diff(ratio) >= 0).all()
    assert Yarn(factor=4.0, original_context=4096).magnitude == pytest.approx(1.1386294)
    assert Yarn(4.0, 4096, log_multiplier=1.0).magnitude == 1.0


@pytest.mark.parametrize("family", ["gemma3", "exaone4"])
def test_yarn_that_a_family_does_not_know_is_refused(workshop: Workshop, family: str) -> None:
    raw = workshop.raw(family)
    ask_for_yarn(raw, family)
    assert "rope.scaling.type" in workshop.complaint(raw)


@pytest.mark.parametrize("n_ctx", [100, 128, 129, 256])
def test_the_length_of_sessions_chooses_factors(tiny: TinyModels, n_ctx: int) -> None:
    path = tiny.path("phi3", "F32")
    engine = NativeEngine(ModelFile(path), n_ctx=n_ctx)
    assert distance(engine, Reference(path, n_ctx=n_ctx)) < LIMIT
    other = 300 if n_ctx <= 128 else 100
    assert distance(engine, Reference(path, n_ctx=other)) > 10 * LIMIT


def test_a_part_of_a_head_that_cannot_be_is_refused(workshop: Workshop) -> None:
    for family in ("glm4", "llama"):
        for rotated in (7, 2 * TINY["llama"].head_dim):
            raw = workshop.raw(family)
            raw.set(f"{family}.rope.dimension_count", rotated)
            assert "rope.dimension_count" in workshop.complaint(raw)


def test_factors_that_do_not_fit_are_refused(workshop: Workshop) -> None:
    raw = workshop.raw("phi3")
    raw.tensors[b"rope_factors_short.weight"] = RawTensor([5], F32, np.ones(5, "<f4").tobytes())
    assert "'rope_factors_short.weight' does not hold" in workshop.complaint(raw)


def test_a_granite_without_rotation_has_none(workshop: Workshop) -> None:
    raw = workshop.raw("granite")
    raw.set("granite.rope.scaling.finetuned", False)
    assert workshop.distance(raw) < LIMIT
    assert workshop.distance(raw, lambda r: setattr(r, "_rotates", lambda *_: True)) > 10 * LIMIT


def test_the_exaone_of_64_layers_rotates_where_it_has_windows(tiny: TinyModels) -> None:
    shape = replace(TINY["exaone4"], n_layer=64, window=24, n_embd=32, n_ff=64)
    path = tiny.path("exaone4", "F32", shape)
    reference = Reference(path)
    engine = NativeEngine(ModelFile(path), threads=1)
    assert distance(engine, reference) < LIMIT
    reference.window = 25
    assert distance(engine, reference) > 10 * LIMIT


@pytest.mark.parametrize("scaling", ["", "yarn"])
def test_an_olmo_with_windows_does_not_scale_them(tiny: TinyModels, scaling: str) -> None:
    shape = replace(TINY["olmo2"], n_layer=4, window=24)
    path = tiny.path("olmo2", "F32", shape)
    raw = RawGguf.read(path)
    if scaling:
        ask_for_yarn(raw, "olmo2")
    else:
        raw.set("olmo2.rope.scaling.factor", 4.0)
    path = path.with_name(f"olmo{scaling}.gguf")
    path.write_bytes(raw.to_bytes())
    reference = Reference(path)
    engine = NativeEngine(ModelFile(path), threads=1)
    assert distance(engine, reference) < LIMIT
    reference.local_every = 2
    assert distance(engine, reference) > 10 * LIMIT


@pytest.mark.parametrize("n_layer", [2, 46])
def test_the_widest_gemma_scales_scores_by_the_mean_head(tmp_path, n_layer: int) -> None:
    shape = replace(TINY["gemma2"], n_layer=n_layer)  # heads of 32 of a width of 96 / 4
    write_model(tmp_path / "model.gguf", "gemma2", shape, "F32")
    reference = Reference(tmp_path / "model.gguf")
    if n_layer == 46:
        reference.score_scale = (shape.n_embd // shape.n_head) ** -0.5
    assert distance(NativeEngine(ModelFile(tmp_path / "model.gguf")), reference) < LIMIT
