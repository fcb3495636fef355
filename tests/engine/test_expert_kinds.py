"""Every kind of experts that a family may ask for computes what the reference computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from maglio._core import Gating, ModelSpec
from maglio.engine.base import Segment
from maglio.engine.native import families
from maglio.engine.native.experts import after_dense, experts, own_length
from maglio.engine.native.keys import Keys
from maglio.engine.session import Session
from support.gguf_bytes import RawGguf
from support.models import TINY
from support.reference import Reference
from support.tiny import ISAS, random_tokens
from support.workshop import LIMIT, Workshop, add_matrix, add_vector

FAMILY = "qwen3moe"
SHAPE = TINY[FAMILY]
N_SHARED = 40

Change = Callable[[RawGguf, str], None]


@dataclass(frozen=True)
class Kind:
    """What a page says, what the file has of every layer, and what the reference does."""

    options: dict[str, Any] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    keys: dict[str, int] = field(default_factory=dict)
    router: dict[str, Any] = field(default_factory=dict)


def selection_bias(raw: RawGguf, layer: str) -> None:
    add_vector(raw, layer + "exp_probs_b.bias", SHAPE.n_expert, len(layer))


def biases(raw: RawGguf, layer: str) -> None:
    add_vector(raw, layer + "ffn_gate_inp.bias", SHAPE.n_expert, 1)
    add_matrix(raw, layer + "ffn_gate_exps.bias", [SHAPE.n_ff, SHAPE.n_expert], 2)
    add_matrix(raw, layer + "ffn_up_exps.bias", [SHAPE.n_ff, SHAPE.n_expert], 3)
    add_matrix(raw, layer + "ffn_down_exps.bias", [SHAPE.n_embd, SHAPE.n_expert], 4)


def shared(raw: RawGguf, layer: str) -> None:
    add_matrix(raw, layer + "ffn_gate_shexp.weight", [SHAPE.n_embd, N_SHARED], 5)
    add_matrix(raw, layer + "ffn_up_shexp.weight", [SHAPE.n_embd, N_SHARED], 6)
    add_matrix(raw, layer + "ffn_down_shexp.weight", [N_SHARED, SHAPE.n_embd], 7)


def weighs_shared(raw: RawGguf, layer: str) -> None:
    add_vector(raw, layer + "ffn_gate_inp_shexp.weight", SHAPE.n_embd, 8)


def fuse(raw: RawGguf, layer: str) -> None:
    gate, up = (
        raw.tensors.pop(f"{layer}ffn_{part}_exps.weight".encode()) for part in ("gate", "up")
    )
    columns, rows, n = gate.dims
    halves = [np.frombuffer(t.data, "<f4").reshape(n, rows, columns) for t in (gate, up)]
    data = np.concatenate(halves, axis=1).tobytes()
    raw.tensors[f"{layer}ffn_gate_up_exps.weight".encode()] = type(gate)(
        [columns, 2 * rows, n], gate.kind, data
    )


GROUPS = {"expert_group_count": 3, "expert_group_used_count": 2}
KINDS = {
    "sigmoid": Kind({"gating": Gating.SIGMOID}, router={"gating": "sigmoid"}),
    "a bias of the choice": Kind(
        {"gating": Gating.SIGMOID}, (selection_bias,), router={"gating": "sigmoid"}
    ),
    "groups": Kind(keys=GROUPS, router={"n_group": 3, "n_group_used": 2}),
    "biases": Kind({}, (biases,)),
    "a shared expert": Kind({"n_shared_ff": N_SHARED}, (shared,)),
    "a weighed shared expert": Kind(
        {"n_shared_ff": N_SHARED, "weighs_shared": True}, (shared, weighs_shared)
    ),
    "fused": Kind({}, (fuse,)),
    "everything": Kind(
        {
            "gating": Gating.SIGMOID,
            "scale": 2.5,
            "n_shared_ff": N_SHARED,
            "weighs_shared": True,
        },
        (selection_bias, biases, shared, weighs_shared),
        GROUPS,
        {"gating": "sigmoid", "scale": 2.5, "n_group": 3, "n_group_used": 2},
    ),
}


def use(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> Kind:
    """Let the page of the family be of this kind."""

    def page(keys: Keys) -> ModelSpec:
        attention = keys.attention(rope=keys.rope(), head_norms=True)
        options = {"normalize": True} | kind.options
        part = experts(keys, n_ff=own_length(keys), **options)
        return keys.model(mixers=[attention] * keys.n_layer, feed_forward=part)

    families.all_families()  # once they are all there
    monkeypatch.setitem(families._families, FAMILY, page)
    return kind


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kind:
    return use(KINDS[request.param], monkeypatch)


def file_of(workshop: Workshop, kind: Kind) -> RawGguf:
    raw = workshop.raw(FAMILY)
    for key, value in kind.keys.items():
        raw.set(f"{FAMILY}.{key}", value)
    for layer in range(SHAPE.n_layer):
        for change in kind.changes:
            change(raw, f"blk.{layer}.")
    return raw


def as_the_page_says(kind: Kind, reference: Reference) -> None:
    for name, value in kind.router.items():
        setattr(reference.router, name, value)


def test_experts_of_a_kind_are_those_of_the_reference(workshop: Workshop, kind: Kind) -> None:
    raw = file_of(workshop, kind)
    assert workshop.distance(raw, lambda r: as_the_page_says(kind, r)) < LIMIT
    if kind.router:
        assert workshop.distance(raw) > 10 * LIMIT


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("a bias of the choice", "exp_probs_b.bias"),
        ("biases", "ffn_gate_inp.bias"),
        ("biases", "ffn_gate_exps.bias"),
        ("biases", "ffn_up_exps.bias"),
        ("biases", "ffn_down_exps.bias"),
        ("a shared expert", "ffn_up_shexp.weight"),
        ("a weighed shared expert", "ffn_gate_inp_shexp.weight"),
    ],
)
def test_a_part_left_out_would_be_noticed(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, name: str, tensor: str
) -> None:
    kind = use(KINDS[name], monkeypatch)

    def leave_out(reference: Reference) -> None:
        as_the_page_says(kind, reference)
        reference.tensors.pop(f"blk.1.{tensor}")

    assert workshop.distance(file_of(workshop, kind), leave_out) > 10 * LIMIT


@pytest.mark.parametrize("isa", ISAS)
def test_experts_of_a_kind_keep_the_row_law(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, kind: Kind, isa: str
) -> None:
    raw = file_of(workshop, kind)
    tokens = [random_tokens(300, 25, seed) for seed in range(3)]
    monkeypatch.setenv("MAGLIO_ISA", ISAS[-1])
    alone = workshop.engine(raw, threads=1)
    expected = []
    for stream in tokens:
        session = Session(alone)
        expected.append(np.concatenate([session.forward([token]) for token in stream]))
    monkeypatch.setenv("MAGLIO_ISA", isa)
    engine = workshop.engine(raw, threads=2)
    batch = [Segment(engine.new_cache(), stream, len(stream)) for stream in tokens]
    for rows, alone_rows in zip(engine.forward(batch), expected, strict=True):
        np.testing.assert_array_equal(rows.view(np.uint32), alone_rows.view(np.uint32))


N_DENSE = 48


def first_layers_dense(workshop: Workshop, monkeypatch: pytest.MonkeyPatch, n: int) -> RawGguf:
    """Return a file that says how many layers are dense, of which one is, and let the page ask."""

    def page(keys: Keys) -> ModelSpec:
        attention = keys.attention(rope=keys.rope(), head_norms=True)
        part = experts(keys, n_ff=own_length(keys), normalize=True)
        layers = after_dense(keys, part, keys.gated())
        return keys.model(mixers=[attention] * keys.n_layer, feed_forward=layers)

    families.all_families()
    monkeypatch.setitem(families._families, FAMILY, page)
    raw = workshop.raw(FAMILY)
    raw.set(f"{FAMILY}.leading_dense_block_count", n)
    raw.set(f"{FAMILY}.feed_forward_length", N_DENSE)
    for name in [name for name in raw.tensors if name.startswith(b"blk.0.ffn_")]:
        if name != b"blk.0.ffn_norm.weight":
            raw.tensors.pop(name)
    add_matrix(raw, "blk.0.ffn_gate.weight", [SHAPE.n_embd, N_DENSE], 1)
    add_matrix(raw, "blk.0.ffn_up.weight", [SHAPE.n_embd, N_DENSE], 2)
    add_matrix(raw, "blk.0.ffn_down.weight", [N_DENSE, SHAPE.n_embd], 3)
    return raw


def test_the_first_layers_may_be_dense(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert workshop.distance(first_layers_dense(workshop, monkeypatch, 1)) < LIMIT


@pytest.mark.parametrize(
    ("n", "says"),
    [
        (0, "'blk.0.ffn_gate_inp.weight' is missing"),
        (2, "'qwen3moe.expert_count' is 6"),
        (3, "'qwen3moe.leading_dense_block_count' is 3, but there are 2 layers"),
    ],
)
def test_other_layers_than_the_dense_ones_are_refused(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, n: int, says: str
) -> None:
    assert says in workshop.complaint(first_layers_dense(workshop, monkeypatch, n))


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"expert_group_count": 4, "expert_group_used_count": 2}, "not of equal size"),
        ({"expert_group_count": 3, "expert_group_used_count": 4}, "the number of groups used is 4"),
        ({"expert_group_count": 7, "expert_group_used_count": 1}, "values up to 6"),
        ({"expert_group_count": 6, "expert_group_used_count": 2}, "more experts than its groups"),
        ({"expert_group_count": 3, "expert_group_used_count": 0}, "expert_group_used_count"),
    ],
)
def test_groups_that_cannot_be_are_refused(
    workshop: Workshop, keys: dict[str, int], says: str
) -> None:
    raw = workshop.raw(FAMILY)
    for key, value in keys.items():
        raw.set(f"{FAMILY}.{key}", value)
    assert says in workshop.complaint(raw)


@pytest.mark.parametrize(
    "dims", [[SHAPE.n_expert, SHAPE.n_ff], [SHAPE.n_ff * SHAPE.n_expert], [SHAPE.n_ff, 5]]
)
def test_biases_of_another_shape_are_refused(workshop: Workshop, dims: list[int]) -> None:
    raw = workshop.raw(FAMILY)
    add_matrix(raw, "blk.1.ffn_up_exps.bias", dims, 1)
    assert "'blk.1.ffn_up_exps.bias' must be 6 vectors" in workshop.complaint(raw)


def test_a_fused_tensor_of_another_shape_is_refused(workshop: Workshop) -> None:
    raw = workshop.raw(FAMILY)
    fuse(raw, "blk.1.")
    raw.tensors[b"blk.1.ffn_gate_up_exps.weight"].dims[1] -= 1
    assert "expected 6 x 192 x 64" in workshop.complaint(raw)
