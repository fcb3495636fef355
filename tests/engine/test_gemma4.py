"""Gemma 4: heads of two shapes, keys that serve as values, shared keys, embeddings for each layer.

The tests of all families run on files as those of E2B. Here are those of 31B and 26B-A4B, and files
that are not what they say.
"""

from __future__ import annotations

import numpy as np
import pytest
from gguf.quants import dequantize

from maglio.engine.session import Session
from support.family_files import forms
from support.gguf_bytes import RawGguf, RawTensor, Value
from support.goldens import log_softmax
from support.models import FORMATS, TINY, TINY_K
from support.reference import Reference
from support.tiny import ISAS, TinyModels, random_tokens
from support.workshop import F32, LIMIT, Workshop, add_vector

E2B = TINY["gemma4"]
FORMS = forms("gemma4", E2B)
MIXTURE = FORMS["gemma4 26B-A4B"]
OTHERS = [form for form in FORMS if FORMS[form] != E2B]
QUANTIZED_LIMIT = 2.5e-3


@pytest.fixture
def mixture(tiny: TinyModels) -> RawGguf:
    return RawGguf.read(tiny.path("gemma4", "F32", MIXTURE))


# --- what it computes -----------------------------------------------------------------------------


@pytest.mark.parametrize("form", OTHERS)
@pytest.mark.parametrize("fmt", ["F32", "F16", "Q8_0"])
def test_the_other_forms_are_the_reference(tiny: TinyModels, form: str, fmt: str) -> None:
    engine = tiny.engine("gemma4", fmt, shape=FORMS[form])
    tokens = random_tokens(engine.n_vocab, 100, 1)
    ours = log_softmax(Session(engine).forward(tokens))
    theirs = log_softmax(Reference(tiny.path("gemma4", fmt, FORMS[form])).logits(tokens))
    kl = (np.exp(theirs) * (theirs - ours)).sum(axis=1).mean()
    assert kl < (QUANTIZED_LIMIT if fmt == "Q8_0" else LIMIT)


@pytest.mark.parametrize("form", OTHERS)
@pytest.mark.parametrize("isa", ISAS)
def test_the_other_forms_keep_the_row_law(tiny: TinyModels, form: str, isa: str) -> None:
    tokens = random_tokens(301, 90)
    one = Session(tiny.engine("gemma4", "Q4_0", shape=FORMS[form]))
    rows = np.concatenate([one.forward([token]) for token in tokens])
    session = Session(tiny.engine("gemma4", "Q4_0", shape=FORMS[form], threads=2, isa=isa))
    np.testing.assert_array_equal(session.forward(tokens[:37]), rows[:37])
    fork = session.fork()
    session.forward([7, 7, 7])
    np.testing.assert_array_equal(fork.forward(tokens[37:]), rows[37:])


LEFT_OUT = {
    "the embeddings of layers": lambda r: setattr(r, "n_per_layer", 0),
    "the norm of values": lambda r: setattr(r, "norms_values", False),
    "the cap": lambda r: setattr(r, "logit_cap", 0.0),
    "an output scale": lambda r: r.tensors.pop("blk.4.layer_output_scale.weight"),
    "the factors of the rotation": lambda r: r.tensors.pop("rope_freqs.weight"),
    "the scale of scores": lambda r: setattr(r, "score_scale", 0.5),
    "which layer's keys are read": lambda r: setattr(r, "_kv_layer", lambda layer: layer % 3),
}


@pytest.mark.parametrize("part", LEFT_OUT)
def test_the_limit_catches_what_is_left_out(workshop: Workshop, part: str) -> None:
    assert workshop.distance(workshop.raw("gemma4"), LEFT_OUT[part]) > 10 * LIMIT


LEFT_OUT_OF_EXPERTS = {
    "the norm of the router": "ffn_gate_inp.scale",
    "the norm of their input": "pre_ffw_norm_2.weight",
    "the norm of their output": "post_ffw_norm_2.weight",
    "the norm of the dense output": "post_ffw_norm_1.weight",
    "the scales of their outputs": "ffn_down_exps.scale",
}


@pytest.mark.parametrize("part", LEFT_OUT_OF_EXPERTS)
def test_the_limit_catches_what_is_left_out_of_experts(
    workshop: Workshop, mixture: RawGguf, part: str
) -> None:
    tensor = f"blk.2.{LEFT_OUT_OF_EXPERTS[part]}"

    def forget(reference: Reference) -> None:
        ones = np.ones_like(reference.tensors[tensor].data)
        reference.tensors[tensor] = reference.tensors[tensor]._replace(data=ones)

    assert workshop.distance(mixture, forget) > 10 * LIMIT


def test_experts_may_be_in_some_layers_only(workshop: Workshop, mixture: RawGguf) -> None:
    for name in list(mixture.tensors):
        if name.startswith(b"blk.3.") and (
            b"_exps" in name or b"gate_inp" in name or b"_2" in name
        ):
            del mixture.tensors[name]
    del mixture.tensors[b"blk.3.post_ffw_norm_1.weight"]
    assert workshop.distance(mixture) < LIMIT


def test_outputs_of_experts_may_have_no_scale(workshop: Workshop, mixture: RawGguf) -> None:
    for layer in range(E2B.n_layer):
        del mixture.tensors[f"blk.{layer}.ffn_down_exps.scale".encode()]
    assert workshop.distance(mixture) < LIMIT


def test_gate_and_up_of_experts_may_be_one_tensor(workshop: Workshop, mixture: RawGguf) -> None:
    tokens = random_tokens(301, 60)
    expected = Session(workshop.engine(mixture)).forward(tokens)
    n_expert = MIXTURE.n_expert
    for layer in range(MIXTURE.n_layer):
        gate, up = (
            mixture.tensors.pop(f"blk.{layer}.ffn_{part}_exps.weight".encode())
            for part in ("gate", "up")
        )
        halves = [
            np.frombuffer(part.data, "<f4")[: MIXTURE.n_ff * MIXTURE.n_embd * n_expert]
            for part in (gate, up)
        ]
        both = np.concatenate([half.reshape(n_expert, -1) for half in halves], axis=1)
        mixture.tensors[f"blk.{layer}.ffn_gate_up_exps.weight".encode()] = RawTensor(
            [MIXTURE.n_embd, 2 * MIXTURE.n_ff, n_expert], F32, both.tobytes()
        )
    np.testing.assert_array_equal(Session(workshop.engine(mixture)).forward(tokens), expected)


def test_pages_hold_only_the_layers_that_own_keys(tiny: TinyModels) -> None:
    local, wide = 16, 32  # two layers with heads of one width, one with heads of the other
    halves = 2 * 64 * (2 * local + wide)
    assert tiny.engine("gemma4", "F32").page_bytes == 2 * halves


def test_keys_of_layers_that_share_them_are_let_pass(workshop: Workshop) -> None:
    raw = workshop.raw("gemma4")
    tokens = random_tokens(301, 60)
    expected = Session(workshop.engine(raw)).forward(tokens)
    for name in ("attn_k.weight", "attn_v.weight", "attn_k_norm.weight"):
        for layer, like in ((3, 0), (4, 1), (5, 2)):
            raw.tensors[f"blk.{layer}.{name}".encode()] = raw.tensors[f"blk.{like}.{name}".encode()]
    np.testing.assert_array_equal(Session(workshop.engine(raw)).forward(tokens), expected)


@pytest.mark.parametrize("layer", [1, 2])
def test_keys_serve_as_values_where_there_are_none(workshop: Workshop, layer: int) -> None:
    raw = workshop.raw("gemma4")
    del raw.tensors[f"blk.{layer}.attn_v.weight".encode()]
    add_vector(raw, f"blk.{layer}.attn_k.bias", 16 * layer, 3)
    assert workshop.distance(raw) < LIMIT


@pytest.mark.parametrize("cap", [None, 0.0, 3.0])
def test_logits_are_capped_by_30_unless_the_file_says_otherwise(
    workshop: Workshop, cap: float | None
) -> None:
    raw = workshop.raw("gemma4")
    raw.drop("gemma4.final_logit_softcapping")
    if cap is not None:
        raw.set("gemma4.final_logit_softcapping", cap)
    assert workshop.distance(raw) < LIMIT


TABLE = "per_layer_token_embd.weight"


@pytest.mark.parametrize("fmt", [fmt for fmt in FORMATS if fmt != "F32"])
def test_rows_of_the_table_are_the_values_of_the_file(
    tiny: TinyModels, workshop: Workshop, fmt: str
) -> None:
    path = tiny.path("gemma4", lambda name: fmt if name == TABLE else "F32", TINY_K["gemma4"])
    raw = RawGguf.read(path)
    tokens = random_tokens(301, 40)
    rows = Session(workshop.engine(raw)).forward(tokens)
    table = Reference(path).tensors[TABLE]
    values = dequantize(table.data, table.tensor_type)
    raw.tensors[TABLE.encode()] = RawTensor([*values.shape[::-1]], F32, values.tobytes())
    np.testing.assert_array_equal(Session(workshop.engine(raw)).forward(tokens), rows)


# --- what is refused ------------------------------------------------------------------------------

PATTERN = "attention.sliding_window_pattern"


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("attention.shared_kv_layers", 7, "'gemma4.attention.shared_kv_layers' is 7, but layer 0"),
        ("attention.shared_kv_layers", 6, "'gemma4.attention.shared_kv_layers' is 6, but layer 0"),
        ("attention.shared_kv_layers", 4, "'gemma4.attention.shared_kv_layers' is 4, but layer 2"),
        ("attention.shared_kv_layers", 2, "tensor 'blk.3.attn_k.weight' is missing"),
        ("attention.shared_kv_layers", 2**31, "attention.shared_kv_layers"),
        ("attention.shared_kv_layers", True, "attention.shared_kv_layers"),
        ("attention.sliding_window", 0, "'gemma4.attention.sliding_window' is 0"),
        (PATTERN, 3, f"'gemma4.{PATTERN}' is missing, or not one truth value per layer"),
        (PATTERN, np.array([True, False]), f"'gemma4.{PATTERN}' is not one truth value per layer"),
        (PATTERN, np.ones(6, bool), "tensor 'blk.2.attn_q.weight' is 128 x 96, expected 64 x 96"),
        ("attention.head_count_kv", np.array([1, 1], np.int32), "is not one plausible whole"),
        ("attention.head_count_kv", np.array([1, 1, 1, 1, 1, 0], np.int32), "is not one plausible"),
        ("attention.head_count_kv", np.array([1, 1, 1, 1, 1, 2], np.int32), "layer 5: it reads"),
        ("attention.head_count_kv", np.full(6, 0.5, np.float32), "attention.head_count_kv"),
        ("feed_forward_length", np.array([160] * 5, np.int32), "'gemma4.feed_forward_length' is"),
        ("feed_forward_length", np.array([160] * 5 + [2**30]), "'gemma4.feed_forward_length' is"),
        ("feed_forward_length", 160, "tensor 'blk.3.ffn_gate.weight' is 320 x 96, expected 160"),
        ("embedding_length_per_layer_input", 64, "'per_layer_token_embd.weight' is 301 x 192"),
        ("embedding_length_per_layer_input", 31, "the embedding length of a layer is 31"),
        ("embedding_length_per_layer_input", 2**25, "the embedding length of a layer is"),
        ("embedding_length_per_layer_input", 2**19, "the embedding length of all layers is"),
        ("embedding_length_per_layer_input", 0, "'per_layer_token_embd.weight' is not part of"),
        ("attention.key_length_swa", 15, "'gemma4.attention.key_length_swa' is 15"),
        ("attention.value_length_swa", 32, "'gemma4.attention.value_length_swa' is not"),
        ("attention.value_length", 16, "'gemma4.attention.value_length' is not"),
        ("rope.dimension_count_swa", 32, "'gemma4.rope.dimension_count_swa' is not the width"),
        ("rope.dimension_count", 16, "'gemma4.rope.dimension_count' is not the width"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(
    workshop: Workshop, key: str, value: Value, says: str
) -> None:
    raw = workshop.raw("gemma4")
    raw.set(f"gemma4.{key}", value)
    assert says in workshop.complaint(raw)


@pytest.mark.parametrize(
    "name",
    [
        "rope_freqs.weight",
        "per_layer_token_embd.weight",
        "per_layer_model_proj.weight",
        "per_layer_proj_norm.weight",
        "blk.0.inp_gate.weight",
        "blk.5.proj.weight",
        "blk.3.post_norm.weight",
    ],
)
def test_a_missing_tensor_is_named(workshop: Workshop, name: str) -> None:
    raw = workshop.raw("gemma4")
    del raw.tensors[name.encode()]
    assert f"tensor '{name}' is missing" in workshop.complaint(raw)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"expert_count": 0}, "'gemma4.expert_count' is 0"),
        ({"expert_count": 7}, "tensor 'blk.0.ffn_gate_inp.weight' is 6 x 96, expected 7 x 96"),
        ({"expert_used_count": 7}, "the number of experts used is 7"),
        ({"expert_feed_forward_length": 33}, "the feed-forward length of an expert is 33"),
        ("pre_ffw_norm_2.weight", "tensor 'blk.0.pre_ffw_norm_2.weight' is missing"),
        ("post_ffw_norm_1.weight", "tensor 'blk.0.post_ffw_norm_1.weight' is missing"),
        ("ffn_gate_inp.scale", "tensor 'blk.0.ffn_gate_inp.scale' is missing"),
        ("ffn_gate_inp.weight", "tensor 'blk.0.ffn_gate_inp.scale' is not part of"),
    ],
)
def test_experts_that_do_not_fit_are_refused(
    workshop: Workshop, mixture: RawGguf, change: dict[str, int] | str, says: str
) -> None:
    if isinstance(change, str):
        del mixture.tensors[f"blk.0.{change}".encode()]
    else:
        for key, value in change.items():
            mixture.set(f"gemma4.{key}", value)
    assert says in workshop.complaint(mixture)


def test_an_output_scale_is_one_number(workshop: Workshop) -> None:
    raw = workshop.raw("gemma4")
    add_vector(raw, "blk.1.layer_output_scale.weight", 2, 1)
    assert "'blk.1.layer_output_scale.weight' has 2 values" in workshop.complaint(raw)


def test_a_table_of_another_vocabulary_is_refused(workshop: Workshop) -> None:
    raw = workshop.raw("gemma4")
    table = raw.tensors[b"per_layer_token_embd.weight"]
    table.dims[1] = 300
    table.data = table.data[: -4 * table.dims[0]]
    says = "tensor 'per_layer_token_embd.weight' is 300 x 192, expected 301 x 192"
    assert says in workshop.complaint(raw)
