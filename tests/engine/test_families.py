"""What a family reads of a file: optional weights, fused ones, and every key or none."""

from __future__ import annotations

import numpy as np
import pytest

from maglio.engine.session import Session
from maglio.gguf import ModelFile
from support.family_files import FUSED_GATE
from support.gguf_bytes import RawGguf, RawTensor, Value
from support.keys import harmless_keys
from support.models import FAMILIES, TINY
from support.tiny import TinyModels, random_tokens
from support.workshop import LIMIT, Workshop, add_vector, rows_of

SCALED_OTHERWISE = ("mistral3", "gpt-oss")

# --- weights --------------------------------------------------------------------------------------

BIASES = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]


def add_biases(raw: RawGguf, biases: list[str] = BIASES) -> None:
    for layer in range(2):
        for bias in biases:
            name = f"blk.{layer}.{bias}"
            if (name + ".weight").encode() not in raw.tensors:
                continue  # experts and fused weights have none
            add_vector(raw, name + ".bias", rows_of(raw, name + ".weight"), len(name) * 7 + layer)


@pytest.mark.parametrize("family", FAMILIES)
def test_biases_are_added_where_a_file_has_them(workshop: Workshop, family: str) -> None:
    raw = workshop.raw(family)
    add_biases(raw, [bias for bias in BIASES if bias != "ffn_up" or family not in FUSED_GATE])
    assert workshop.distance(raw) < LIMIT


@pytest.mark.parametrize("family", ["qwen2", "llama"])
def test_a_bias_of_the_output_is_added_to_each_row(workshop: Workshop, family: str) -> None:
    raw = workshop.raw(family)
    expected = Session(workshop.engine(raw)).forward([1, 2, 3])
    add_vector(raw, "output.bias", expected.shape[1], 5)
    bias = np.frombuffer(raw.tensors[b"output.bias"].data, "<f4")
    rows = Session(workshop.engine(raw)).forward([1, 2, 3])
    np.testing.assert_array_equal(rows, expected + bias)


@pytest.mark.parametrize("bias", BIASES)
def test_the_limit_catches_a_missing_bias(workshop: Workshop, bias: str) -> None:
    raw = workshop.raw("llama")
    add_biases(raw)
    assert workshop.distance(raw, lambda r: r.tensors.pop(f"blk.1.{bias}.bias")) > 10 * LIMIT


def test_biases_keep_the_row_law(workshop: Workshop) -> None:
    raw = workshop.raw("llama")
    add_biases(raw)
    tokens = random_tokens(300, 80)
    one = Session(workshop.engine(raw, threads=1))
    rows = np.concatenate([one.forward([token]) for token in tokens])
    np.testing.assert_array_equal(Session(workshop.engine(raw, threads=2)).forward(tokens), rows)


def fuse(raw: RawGguf, kind: str = "weight") -> None:
    """Put queries, keys and values of every layer into one tensor."""
    for layer in range(2):
        parts = [raw.tensors.pop(f"blk.{layer}.attn_{part}.{kind}".encode()) for part in "qkv"]
        dims = [*parts[0].dims[:-1], sum(part.dims[-1] for part in parts)]
        data = b"".join(part.data for part in parts)
        raw.tensors[f"blk.{layer}.attn_qkv.{kind}".encode()] = RawTensor(dims, parts[0].kind, data)


@pytest.mark.parametrize("fmt", ["F32", "Q4_0", "Q8_0", "Q6_K"])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_fused_weights_are_their_parts(
    workshop: Workshop, tiny: TinyModels, family: str, fmt: str
) -> None:
    raw = RawGguf.read(tiny.path(family, fmt))
    fuse(raw)
    if family == "qwen2":
        fuse(raw, "bias")
    tokens = random_tokens(300, 70)
    expected = Session(tiny.engine(family, fmt)).forward(tokens)
    engine = workshop.engine(raw)
    np.testing.assert_array_equal(Session(engine).forward(tokens), expected)
    assert engine.weight_bytes == tiny.engine(family, fmt).weight_bytes


def test_fused_weights_may_have_biases_of_their_own_names(workshop: Workshop) -> None:
    raw = workshop.raw("qwen2")  # has biases of queries, keys and values
    fuse(raw)
    expected = Session(workshop.engine(workshop.raw("qwen2"))).forward([1, 2, 3])
    np.testing.assert_array_equal(Session(workshop.engine(raw)).forward([1, 2, 3]), expected)


def test_a_fused_weight_of_another_size_is_refused(workshop: Workshop) -> None:
    raw = workshop.raw("llama")
    fuse(raw)
    tensor = raw.tensors[b"blk.1.attn_qkv.weight"]
    tensor.dims = [96, 79]
    assert "'blk.1.attn_qkv.weight' is 79 x 96, expected 160 x 96" in workshop.complaint(raw)


def test_a_weight_beside_its_fused_one_is_refused(workshop: Workshop) -> None:
    raw = workshop.raw("llama")
    query = raw.tensors[b"blk.0.attn_q.weight"]
    fuse(raw)
    raw.tensors[b"blk.0.attn_q.weight"] = query
    assert "'blk.0.attn_q.weight' is not part of the llama models" in workshop.complaint(raw)


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_a_norm_that_the_family_has_not_is_refused(workshop: Workshop, family: str) -> None:
    raw = workshop.raw(family)
    add_vector(raw, "blk.0.attn_q_norm.weight", 32, 1)
    message = workshop.complaint(raw)
    assert f"'blk.0.attn_q_norm.weight' is not part of the {family} models" in message


# --- rotation -------------------------------------------------------------------------------------


def test_linear_scaling_without_a_factor_is_none(workshop: Workshop) -> None:
    raw = workshop.raw("llama")
    expected = Session(workshop.engine(raw)).forward([1, 2, 3])
    raw.set("llama.rope.scaling.type", "linear")
    np.testing.assert_array_equal(Session(workshop.engine(raw)).forward([1, 2, 3]), expected)


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in SCALED_OTHERWISE])
@pytest.mark.parametrize("key", ["rope.scaling.factor", "rope.scale_linear"])
@pytest.mark.parametrize("kind", [None, "linear"])
def test_linear_scaling_is_read_from_either_key(
    workshop: Workshop, family: str, key: str, kind: str | None
) -> None:
    raw = workshop.raw(family)
    raw.set(f"{family}.{key}", 4.0)
    if kind is not None:
        raw.set(f"{family}.rope.scaling.type", kind)
    assert workshop.distance(raw) < LIMIT
    assert workshop.distance(raw, lambda r: setattr(r, "rope_scale", 1.0)) > 10 * LIMIT


@pytest.mark.parametrize("key", ["rope.scaling.factor", "rope.scale_linear"])
def test_a_scaling_factor_of_zero_is_none(workshop: Workshop, key: str) -> None:
    raw = workshop.raw("llama")
    expected = Session(workshop.engine(raw)).forward([1, 2, 3, 4])
    raw.set(f"llama.{key}", 0.0)
    raw.set("llama.rope.scaling.type", "linear")
    np.testing.assert_array_equal(Session(workshop.engine(raw)).forward([1, 2, 3, 4]), expected)


def test_no_scaling_has_no_factor(workshop: Workshop) -> None:
    raw = workshop.raw("llama")
    expected = Session(workshop.engine(raw)).forward([1, 2, 3, 4])
    raw.set("llama.rope.scaling.type", "none")
    raw.set("llama.rope.scaling.factor", 4.0)
    np.testing.assert_array_equal(Session(workshop.engine(raw)).forward([1, 2, 3, 4]), expected)


# --- windows --------------------------------------------------------------------------------------


@pytest.mark.parametrize("period", [1, 2, 3, 7])
def test_a_window_pattern_is_honoured(workshop: Workshop, period: int) -> None:
    raw = workshop.raw("gemma3")
    raw.set("gemma3.attention.sliding_window_pattern", period)
    assert workshop.distance(raw) < LIMIT
    assert workshop.distance(raw, lambda r: setattr(r, "local_every", 6)) > 10 * LIMIT


def test_a_window_pattern_may_be_an_array(workshop: Workshop) -> None:
    raw = workshop.raw("gemma3")
    raw.set("gemma3.attention.sliding_window_pattern", 2)
    expected = Session(workshop.engine(raw)).forward(random_tokens(300, 60))
    raw.set("gemma3.attention.sliding_window_pattern", np.array([True, False] * 3 + [True]))
    rows = Session(workshop.engine(raw)).forward(random_tokens(300, 60))
    np.testing.assert_array_equal(rows, expected)
    raw.set("gemma3.attention.sliding_window_pattern", np.array([True, False]))
    assert "sliding_window_pattern" in workshop.complaint(raw)


@pytest.mark.parametrize("window", [None, 0])
def test_without_a_window_every_layer_sees_the_whole_context(
    workshop: Workshop, window: int | None
) -> None:
    raw = workshop.raw("gemma3")
    raw.drop("gemma3.attention.sliding_window")
    assert workshop.distance(raw) < LIMIT
    expected = Session(workshop.engine(raw)).forward(random_tokens(300, 60))
    if window is not None:
        raw.set("gemma3.attention.sliding_window", window)
    raw.set("gemma3.attention.sliding_window_pattern", 2)  # of windows that are not there
    raw.set("gemma3.rope.freq_base_swa", 5000.0)
    rows = Session(workshop.engine(raw)).forward(random_tokens(300, 60))
    np.testing.assert_array_equal(rows, expected)


def test_a_window_pattern_of_zero_puts_a_window_on_every_layer(workshop: Workshop) -> None:
    raw = workshop.raw("gemma3")
    raw.set("gemma3.attention.sliding_window_pattern", 99)
    expected = Session(workshop.engine(raw)).forward(random_tokens(300, 60))
    raw.set("gemma3.attention.sliding_window_pattern", 0)
    rows = Session(workshop.engine(raw)).forward(random_tokens(300, 60))
    np.testing.assert_array_equal(rows, expected)


# --- keys -----------------------------------------------------------------------------------------


REFUSED: dict[str, Value] = {
    "attention.scale": 0.5,
    "attention.recurrent_layers": 3,
    "final_logit_softcapping": 30.0,
    "attn_logit_softcapping": 50.0,
    "attention.causal": False,
    "rope.scaling.attn_factor": 0.5,
    "residual_scale": 0.2,
    "attention.key_length_swa": 24,
    "attention.value_length_swa": 24,
    "rope.dimension_count_swa": 6,
    "nextn_predict_layers": 1,
    "embedding_length_out": 7,
    "expert_group_count": 2,
    "expert_count": 8,
    "attention.head_count": np.array([3, 2], np.int32),
    "logit_scale": np.array([0.5, 0.5], np.float32),
}
HONOURED = {
    "qwen3moe": {"expert_count", "expert_group_count"},
    "gpt-oss": {"expert_count", "expert_group_count", "rope.scaling.attn_factor"},
    "gemma2": {"attn_logit_softcapping", "final_logit_softcapping"},
    "llama": {"expert_count"},
    "qwen2moe": {"expert_count", "expert_group_count"},
    "gemma4": {"attention.key_length_swa", "final_logit_softcapping"},
    "granite": {"attention.scale", "residual_scale", "logit_scale"},
    "granitemoe": {
        "attention.scale",
        "residual_scale",
        "logit_scale",
        "expert_count",
        "expert_group_count",
    },
    "phi3": {"rope.scaling.attn_factor"},
    "mistral3": {"rope.scaling.attn_factor"},
    "qwen35": {"attention.recurrent_layers", "nextn_predict_layers"},
    "qwen35moe": {
        "attention.recurrent_layers",
        "nextn_predict_layers",
        "expert_count",
        "expert_group_count",
    },
    "qwen3next": {
        "attention.recurrent_layers",
        "nextn_predict_layers",
        "expert_count",
        "expert_group_count",
    },
    "lfm2moe": {"expert_count", "expert_group_count"},
}


@pytest.mark.parametrize(
    ("family", "key"),
    [(f, key) for f in FAMILIES for key in REFUSED if key not in HONOURED.get(f, ())],
)
def test_a_key_that_cannot_be_honoured_is_refused_by_name(
    workshop: Workshop, family: str, key: str
) -> None:
    raw = workshop.raw(family)
    raw.set(f"{family}.{key}", REFUSED[key])
    assert f"'{family}.{key}'" in workshop.complaint(raw)


@pytest.mark.parametrize("family", FAMILIES)
def test_keys_that_change_nothing_are_let_pass(workshop: Workshop, family: str) -> None:
    raw = workshop.raw(family)
    tokens = random_tokens(300, 40)
    expected = Session(workshop.engine(raw)).forward(tokens)
    for key, value in harmless_keys(ModelFile(workshop.write(raw))).items():
        raw.set(f"{family}.{key}", value)
    raw.set("other.attention.scale", 0.5)  # another architecture's
    np.testing.assert_array_equal(Session(workshop.engine(raw)).forward(tokens), expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_arrays_of_one_value_are_that_value(workshop: Workshop, family: str) -> None:
    raw = workshop.raw(family)
    tokens = random_tokens(300, 40)
    engine = workshop.engine(raw)
    expected = Session(engine).forward(tokens)
    n_layer = TINY[family].n_layer
    n_ff = "expert_feed_forward_length"
    if not ModelFile(workshop.write(raw)).metadata.get(f"{family}.{n_ff}"):
        n_ff = "feed_forward_length"
    for key, dtype in [
        ("attention.head_count", np.int32),
        *([] if family.startswith("lfm2") else [("attention.head_count_kv", np.uint32)]),
        (n_ff, np.int32),
        ("attention.key_length", np.int32),
    ]:
        value = ModelFile(workshop.write(raw)).metadata[f"{family}.{key}"]
        if isinstance(value, int):
            raw.set(f"{family}.{key}", np.full(n_layer, value, dtype))
    np.testing.assert_array_equal(Session(workshop.engine(raw)).forward(tokens), expected)
    raw.set(f"{family}.{n_ff}", np.full(n_layer + 1, 160, np.int32))
    assert n_ff in workshop.complaint(raw)


def test_a_window_that_llama_cpp_does_not_honour_either_is_let_pass(workshop: Workshop) -> None:
    raw = workshop.raw("llama")
    expected = Session(workshop.engine(raw)).forward([1, 2, 3])
    raw.set("llama.attention.sliding_window", 2)
    np.testing.assert_array_equal(Session(workshop.engine(raw)).forward([1, 2, 3]), expected)
