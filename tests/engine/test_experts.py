"""Experts: what a row takes is its own affair, and weights are those that the file says."""

from __future__ import annotations

import numpy as np
import pytest

from maglio._core import ModelSpec
from maglio.engine.base import Segment
from maglio.engine.native import NativeEngine, families
from maglio.engine.native.experts import experts, own_length
from maglio.engine.native.keys import Keys
from maglio.engine.session import Session
from support.gguf_bytes import RawGguf
from support.models import TINY, Shape
from support.reference import Reference
from support.tiny import ISAS, TinyModels, random_tokens
from support.workshop import LIMIT, Workshop

FAMILY = "qwen3moe"
N_EXPERT = TINY[FAMILY].n_expert
N_EMBD = TINY[FAMILY].n_embd


def route(raw: RawGguf, weights: np.ndarray) -> None:
    """Replace the router of every layer."""
    for layer in range(TINY[FAMILY].n_layer):
        tensor = raw.tensors[f"blk.{layer}.ffn_gate_inp.weight".encode()]
        assert weights.shape == (N_EXPERT, N_EMBD)
        tensor.data = weights.astype("<f4").tobytes()


def router(kind: str) -> np.ndarray:
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((N_EXPERT, N_EMBD)) / np.sqrt(N_EMBD)
    if kind == "all equal":
        return np.zeros_like(rows)
    if kind == "equal in pairs":  # the last one taken may equal the first one left
        return np.repeat(rows[: N_EXPERT // 2], 2, axis=0)
    if kind == "equal in threes":
        return np.repeat(rows, 3, axis=0)[:N_EXPERT]
    return np.vstack([rows[:1] * 40, -rows[:1] * 40, np.zeros_like(rows[2:])])  # one takes all


KINDS = ["all equal", "equal in pairs", "equal in threes", "one takes all"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("threads", [1, 2])
def test_ties_in_a_batch_fall_as_they_fall_alone(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, kind: str, isa: str, threads: int
) -> None:
    raw = workshop.raw(FAMILY)
    route(raw, router(kind))
    tokens = [random_tokens(300, 30, seed) for seed in range(4)]
    monkeypatch.setenv("MAGLIO_ISA", ISAS[-1])
    alone = workshop.engine(raw, threads=1)
    expected = []
    for stream in tokens:
        session = Session(alone)
        expected.append(np.concatenate([session.forward([token]) for token in stream]))
    monkeypatch.setenv("MAGLIO_ISA", isa)
    engine = workshop.engine(raw, threads=threads)
    batch = [Segment(engine.new_cache(), stream, len(stream)) for stream in tokens]
    for rows, alone_rows in zip(engine.forward(batch), expected, strict=True):
        np.testing.assert_array_equal(rows.view(np.uint32), alone_rows.view(np.uint32))


@pytest.mark.parametrize("kind", KINDS)
def test_ties_go_to_the_expert_that_comes_first(workshop: Workshop, kind: str) -> None:
    raw = workshop.raw(FAMILY)
    route(raw, router(kind))
    assert workshop.distance(raw) < LIMIT


def test_another_order_of_equal_experts_would_be_noticed(workshop: Workshop) -> None:
    raw = workshop.raw(FAMILY)
    route(raw, router("all equal"))

    def reverse(reference: Reference) -> None:
        for part in ("gate", "up", "down"):
            tensor = reference.tensors[f"blk.1.ffn_{part}_exps.weight"]
            reference.tensors[tensor.name] = tensor._replace(data=tensor.data[::-1])

    assert workshop.distance(raw, reverse) > 10 * LIMIT


@pytest.mark.parametrize("n_used", [1, 2, N_EXPERT])
def test_rows_may_take_one_expert_or_all(workshop: Workshop, n_used: int) -> None:
    raw = workshop.raw(FAMILY)
    raw.set(f"{FAMILY}.expert_used_count", n_used)
    assert workshop.distance(raw) < LIMIT


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("scale", [0.0, 1.0, 0.4])
def test_a_family_may_scale_weights_and_leave_them_as_they_are(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, normalize: bool, scale: float
) -> None:
    def page(keys: Keys) -> ModelSpec:
        attention = keys.attention(rope=keys.rope(), head_norms=True)
        scale = keys.factor("expert_weights_scale")
        part = experts(keys, n_ff=own_length(keys), normalize=normalize, scale=scale)
        return keys.model(mixers=[attention] * keys.n_layer, feed_forward=part)

    def change(reference: Reference) -> None:
        reference.router.normalizes = normalize
        reference.router.scale = scale or 1.0

    monkeypatch.setitem(families._families, FAMILY, page)
    raw = workshop.raw(FAMILY)
    raw.set(f"{FAMILY}.expert_weights_scale", scale)
    assert workshop.distance(raw, change) < LIMIT
    if scale == 0.4 or not normalize:
        assert workshop.distance(raw) > 10 * LIMIT


def test_without_a_length_of_its_own_an_expert_has_its_share(workshop: Workshop) -> None:
    raw = workshop.raw(FAMILY)
    expected = Session(workshop.engine(raw)).forward([1, 2, 3])
    raw.drop(f"{FAMILY}.expert_feed_forward_length")
    shape = TINY[FAMILY]
    raw.set(f"{FAMILY}.feed_forward_length", shape.n_ff * shape.n_used)
    np.testing.assert_array_equal(Session(workshop.engine(raw)).forward([1, 2, 3]), expected)


def test_a_llama_file_may_have_experts(workshop: Workshop, tiny: TinyModels) -> None:
    shape = Shape(2, 96, 3, 1, 32, 64, 300, 256, 0, False, 5, 2)
    raw = RawGguf.read(tiny.path("llama", "F32", shape))
    assert workshop.distance(raw) < LIMIT


def test_weights_are_as_large_as_the_file_has_them(tiny: TinyModels) -> None:
    dense = TINY[FAMILY]
    engine = tiny.engine(FAMILY, "F32")
    experts = 2 * 3 * N_EXPERT * dense.n_ff * N_EMBD * 4
    assert experts < engine.weight_bytes < 2 * experts


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("expert_used_count", N_EXPERT + 1, f"values up to {N_EXPERT}"),
        ("expert_count", 2000, "the number of experts is 2000"),
        ("expert_count", N_EXPERT + 1, "blk.0.ffn_gate_inp.weight"),
        ("expert_feed_forward_length", 64, "'blk.0.ffn_gate_exps.weight' is 6 x 96 x 64, expected"),
        ("expert_feed_forward_length", 80, "the feed-forward length of an expert is 80"),
        ("expert_group_count", 3, "'qwen3moe.expert_group_used_count' is missing"),
    ],
)
def test_what_cannot_be_is_refused(workshop: Workshop, key: str, value: int, says: str) -> None:
    raw = workshop.raw(FAMILY)
    raw.set(f"{FAMILY}.{key}", value)
    assert says in workshop.complaint(raw)


def test_a_tensor_of_as_many_rows_otherwise_cut_is_refused(workshop: Workshop) -> None:
    raw = workshop.raw(FAMILY)
    tensor = raw.tensors[b"blk.1.ffn_up_exps.weight"]
    columns, rows, n = tensor.dims
    for dims in ([columns, rows * n], [columns, n, rows]):
        tensor.dims = dims
        assert f"expected {n} x {rows} x {columns}" in workshop.complaint(raw)


def test_neighbours_that_take_the_same_experts_change_no_bit(tiny: TinyModels) -> None:
    engine: NativeEngine = tiny.engine(FAMILY, "Q8_0", threads=2)
    tokens = random_tokens(engine.n_vocab, 20, 3)
    alone = Session(engine).forward(tokens)
    batch = [Segment(engine.new_cache(), tokens, 20) for _ in range(6)]  # six times the same rows
    for rows in engine.forward(batch):
        np.testing.assert_array_equal(rows.view(np.uint32), alone.view(np.uint32))
