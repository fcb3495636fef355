"""Metadata and tensors of each family's files, as the converters of llama.cpp write them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

from gguf import ExpertGatingFuncType, GGUFWriter, RopeScalingType

Family = Literal[
    "llama",
    "qwen2",
    "qwen3",
    "gemma3",
    "qwen3moe",
    "gemma2",
    "olmo2",
    "smollm3",
    "phi3",
    "granite",
    "glm4",
    "exaone4",
    "mistral3",
    "gpt-oss",
    "qwen2moe",
    "granitemoe",
    "qwen35",
    "lfm2",
    "qwen35moe",
    "lfm2moe",
    "gemma4",
    "qwen3next",
]
FAMILIES: tuple[Family, ...] = get_args(Family)

HEAD_NORMS = (
    "qwen3", "gemma3", "qwen3moe", "exaone4", "qwen35", "lfm2", "qwen35moe", "lfm2moe", "gemma4",
    "qwen3next",
)  # fmt: skip
DELTA_NETS = ("qwen35", "qwen35moe", "qwen3next")
HYBRID = (*DELTA_NETS, "lfm2", "lfm2moe")
"""Families whose layers are recurrent but for every second one in tiny files, fourth in others."""
POST_NORMS = ("gemma2", "gemma3", "olmo2", "glm4", "exaone4", "gemma4")
NO_PRE_NORMS = ("olmo2", "exaone4")
FUSED_GATE = ("phi3", "glm4")
LEADING_DENSE = 1
"""First layers of lfm2moe without experts."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Dimensions of a model; ``window`` is 0 without sliding-window attention.

    With experts, ``n_ff`` is the length of one, and ``n_shared_ff`` of the shared one, 0 for none.
    The last four are those of recurrent layers: heads of keys and of values of a delta net, their
    width, and the taps of convolutions.
    Of Gemma 4, those with embeddings for each layer (of length ``n_per_layer``) are as E2B, those
    with experts as 26B-A4B, the others as 31B; the last ``n_shared`` layers have no keys.
    """

    n_layer: int
    n_embd: int
    n_head: int
    n_kv_head: int
    head_dim: int
    n_ff: int
    n_vocab: int
    n_ctx: int
    window: int
    tied: bool
    n_expert: int = 0
    n_used: int = 0
    n_shared_ff: int = 0
    n_key_head: int = 0
    n_value_head: int = 0
    state_dim: int = 0
    n_taps: int = 0
    n_per_layer: int = 0
    n_shared: int = 0

    @property
    def n_q(self) -> int:
        """Length of all query heads together."""
        return self.n_head * self.head_dim

    @property
    def n_kv(self) -> int:
        """Length of all key (or value) heads together."""
        return self.n_kv_head * self.head_dim


TINY: dict[Family, Shape] = {
    "llama": Shape(2, 96, 3, 1, 32, 160, 300, 256, 0, False),
    "qwen2": Shape(2, 96, 6, 2, 16, 224, 300, 256, 0, True),
    "qwen3": Shape(2, 64, 3, 1, 64, 160, 300, 256, 0, True),
    "gemma3": Shape(7, 96, 4, 1, 64, 160, 301, 256, 32, True),
    "qwen3moe": Shape(2, 64, 3, 1, 64, 96, 300, 256, 0, False, 6, 3),
    "gemma2": Shape(3, 96, 4, 2, 32, 160, 301, 256, 32, True),
    "olmo2": Shape(2, 96, 6, 2, 16, 160, 300, 256, 0, False),
    "smollm3": Shape(4, 96, 3, 1, 32, 160, 300, 256, 0, True),
    "phi3": Shape(2, 96, 3, 1, 32, 160, 300, 256, 0, False),
    "granite": Shape(2, 96, 3, 1, 32, 160, 300, 256, 0, True),
    "glm4": Shape(2, 96, 6, 2, 16, 160, 300, 256, 0, False),
    "exaone4": Shape(2, 96, 3, 1, 32, 160, 300, 256, 0, True),
    "mistral3": Shape(2, 96, 6, 2, 32, 160, 300, 256, 0, True),
    "gpt-oss": Shape(3, 96, 6, 2, 16, 64, 300, 256, 32, False, 5, 3),
    "qwen2moe": Shape(2, 96, 6, 2, 16, 64, 300, 256, 0, False, 5, 3, 96),
    "granitemoe": Shape(2, 96, 3, 1, 32, 64, 300, 256, 0, True, 5, 4, 96),
    "qwen35": Shape(3, 96, 3, 1, 32, 160, 300, 256, 0, True, 0, 0, 0, 2, 4, 80, 4),
    "lfm2": Shape(3, 96, 3, 1, 32, 160, 300, 256, 0, True, n_taps=3),
    "gemma4": Shape(6, 96, 4, 1, 32, 160, 301, 256, 32, True, n_per_layer=32, n_shared=3),
    "qwen35moe": Shape(3, 96, 3, 1, 32, 64, 300, 256, 0, False, 5, 3, 96, 1, 2, 48, 4),
    "lfm2moe": Shape(3, 96, 3, 1, 32, 64, 300, 256, 0, True, 5, 3, n_taps=3),
    "qwen3next": Shape(3, 96, 3, 1, 32, 64, 300, 256, 0, False, 5, 3, 96, 2, 6, 48, 4),
}

TINY_K: dict[Family, Shape] = {
    "llama": Shape(2, 256, 4, 2, 64, 512, 300, 256, 0, False),
    "qwen2": Shape(2, 256, 8, 2, 32, 512, 300, 256, 0, True),
    "qwen3": Shape(2, 256, 6, 2, 128, 512, 300, 256, 0, True),
    "gemma3": Shape(7, 256, 4, 1, 64, 512, 301, 256, 32, True),
    "qwen3moe": Shape(2, 256, 8, 2, 64, 256, 300, 256, 0, False, 8, 4),
    "gemma2": Shape(3, 256, 8, 2, 64, 512, 301, 256, 32, True),
    "olmo2": Shape(2, 256, 4, 2, 64, 512, 300, 256, 0, False),
    "smollm3": Shape(4, 256, 4, 2, 64, 512, 300, 256, 0, True),
    "phi3": Shape(2, 256, 4, 2, 64, 512, 300, 256, 0, False),
    "granite": Shape(2, 256, 4, 2, 64, 512, 300, 256, 0, True),
    "glm4": Shape(2, 256, 4, 2, 64, 512, 300, 256, 0, False),
    "exaone4": Shape(2, 256, 4, 2, 64, 512, 300, 256, 0, True),
    "mistral3": Shape(2, 256, 4, 2, 64, 512, 300, 256, 0, True),
    "gpt-oss": Shape(2, 256, 8, 2, 32, 256, 300, 256, 32, False, 6, 4),
    "qwen2moe": Shape(2, 256, 8, 2, 32, 256, 300, 256, 0, False, 6, 3, 256),
    "granitemoe": Shape(2, 256, 4, 2, 64, 256, 300, 256, 0, True, 6, 5, 256),
    "qwen35": Shape(3, 256, 4, 2, 64, 512, 300, 256, 0, True, 0, 0, 0, 2, 4, 64, 4),
    "lfm2": Shape(3, 256, 4, 2, 64, 512, 300, 256, 0, True, n_taps=3),
    "gemma4": Shape(6, 256, 4, 1, 128, 512, 301, 256, 32, True, n_per_layer=256, n_shared=3),
    "qwen35moe": Shape(2, 256, 4, 2, 64, 256, 300, 256, 0, False, 5, 3, 256, 1, 2, 128, 4),
    "lfm2moe": Shape(2, 256, 4, 2, 64, 256, 300, 256, 0, True, 5, 3, n_taps=3),
    "qwen3next": Shape(2, 256, 4, 2, 64, 256, 300, 256, 0, False, 5, 3, 256, 2, 4, 64, 4),
}


def forms(family: Family, shape: Shape) -> dict[str, Shape]:
    """Return the forms that files of a family have, of the size of ``shape``, by name."""
    if family != "gemma4":
        return {family: shape}
    dense = replace(shape, n_per_layer=0, n_shared=0)
    mixture = replace(dense, n_expert=6, n_used=3)
    return {"gemma4 E2B": shape, "gemma4 31B": dense, "gemma4 26B-A4B": mixture}


def is_local(layer: int) -> bool:
    """Whether a layer of a small Gemma 4 has a sliding window."""
    return layer % 3 != 2


def _local_width(shape: Shape) -> int:
    """Width of its heads in such a layer."""
    return shape.head_dim // 4 * 2


def _phi3_rotated(shape: Shape) -> int:
    return shape.head_dim * 3 // 8 * 2


def write_metadata(writer: GGUFWriter, family: Family, shape: Shape) -> None:
    """Write what the family reads."""
    writer.add_context_length(shape.n_ctx)
    writer.add_embedding_length(shape.n_embd)
    writer.add_block_count(shape.n_layer)
    if shape.n_expert:
        if family in ("llama", "granitemoe"):
            writer.add_feed_forward_length(shape.n_ff)
        else:  # of dense parts, which gemma4 alone has
            writer.add_feed_forward_length(2 * shape.n_ff)
            writer.add_expert_feed_forward_length(shape.n_ff)
        if shape.n_shared_ff:
            writer.add_expert_shared_feed_forward_length(shape.n_shared_ff)
        writer.add_expert_count(shape.n_expert)
        writer.add_expert_used_count(shape.n_used)
    else:
        lengths = [_n_ff(shape, layer) for layer in range(shape.n_layer)]
        writer.add_feed_forward_length(lengths if shape.n_shared else shape.n_ff)
    writer.add_head_count(shape.n_head)
    heads = [
        0
        if is_recurrent(family, shape, layer) and family.startswith("lfm2")
        else _n_kv_head(family, shape, layer)
        for layer in range(shape.n_layer)
    ]
    writer.add_head_count_kv(heads if len(set(heads)) > 1 else shape.n_kv_head)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    small = family.startswith(("qwen", "gemma"))
    writer.add_layer_norm_rms_eps(1e-6 if small else 1e-5)
    writer.add_rope_freq_base(10000.0 if family in ("llama", "gemma2") else 1000000.0)
    if family in ("llama", "smollm3", "granite", "granitemoe", "mistral3"):
        writer.add_rope_dimension_count(shape.head_dim)
    if shape.window:
        writer.add_sliding_window(shape.window)
    _write_own(writer, family, shape)
    writer.add_vocab_size(shape.n_vocab)
    writer.add_tokenizer_model("none")


def _write_own(writer: GGUFWriter, family: Family, shape: Shape) -> None:
    if family == "gemma2":  # low enough to be felt
        writer.add_attn_logit_softcapping(2.0)
        writer.add_final_logit_softcapping(12.0)
    elif family == "phi3":
        writer.add_rope_dimension_count(_phi3_rotated(shape))
        writer.add_rope_scaling_orig_ctx_len(shape.n_ctx // 2)
        writer.add_rope_scaling_attn_factors(1.1)
        writer.add_sliding_window(shape.n_ctx)
    elif family.startswith("granite"):
        writer.add_embedding_scale(3.0)
        writer.add_attention_scale(0.1)
        writer.add_residual_scale(2.5)
        writer.add_logit_scale(0.9)
    elif family == "glm4":
        writer.add_rope_dimension_count(shape.head_dim // 4 * 2)
    elif family in DELTA_NETS:
        pairs = shape.head_dim // 4
        writer.add_rope_dimension_count(2 * pairs)
        if family != "qwen3next":
            writer.add_rope_dimension_sections([-(-(pairs - i) // 3) for i in range(3)] + [0])
        writer.add_ssm_conv_kernel(shape.n_taps)
        writer.add_ssm_inner_size(shape.n_value_head * shape.state_dim)
        writer.add_ssm_state_size(shape.state_dim)
        writer.add_ssm_time_step_rank(shape.n_value_head)
        writer.add_ssm_group_count(shape.n_key_head)
        writer.add_full_attention_interval(_attention_interval(shape))
    elif family.startswith("lfm2"):
        writer.add_shortconv_l_cache(shape.n_taps)
        if shape.n_expert:
            writer.add_leading_dense_block_count(LEADING_DENSE)
            writer.add_expert_gating_func(ExpertGatingFuncType.SIGMOID)
    elif family == "mistral3":
        writer.add_rope_scaling_type(RopeScalingType.YARN)
        writer.add_rope_scaling_factor(4.0)
        writer.add_rope_scaling_orig_ctx_len(48)
        writer.add_rope_scaling_yarn_beta_fast(6.0)
        writer.add_rope_scaling_yarn_beta_slow(1.0)
        writer.add_rope_scaling_yarn_log_mul(0.5)
        writer.add_attn_temperature_scale(0.3)
    elif family == "gpt-oss":
        writer.add_rope_scaling_type(RopeScalingType.YARN)
        writer.add_rope_scaling_factor(4.0)
        writer.add_rope_scaling_orig_ctx_len(48)
    elif family == "gemma4":
        _write_gemma4(writer, shape)


def _write_gemma4(writer: GGUFWriter, shape: Shape) -> None:
    writer.add_sliding_window_pattern([is_local(layer) for layer in range(shape.n_layer)])
    writer.add_key_length_swa(_local_width(shape))
    writer.add_value_length_swa(_local_width(shape))
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_dimension_count_swa(_local_width(shape))
    writer.add_shared_kv_layers(shape.n_shared)
    writer.add_embedding_length_per_layer_input(shape.n_per_layer)
    writer.add_final_logit_softcapping(12.0)


def _n_ff(shape: Shape, layer: int) -> int:
    """Twice ``n_ff`` in layers without keys of their own, and in those with experts."""
    double = shape.n_expert or layer >= shape.n_layer - shape.n_shared
    return 2 * shape.n_ff if double else shape.n_ff


def _n_kv_head(family: Family, shape: Shape, layer: int) -> int:
    """Without embeddings for each layer, those of Gemma 4 with a window have twice the heads."""
    twice = family == "gemma4" and not shape.n_per_layer and is_local(layer)
    return 2 * shape.n_kv_head if twice else shape.n_kv_head


def _attention_interval(shape: Shape) -> int:
    return 4 if shape.n_layer >= 8 else 2


def is_recurrent(family: Family, shape: Shape, layer: int) -> bool:
    """Whether a layer is recurrent."""
    return family in HYBRID and (layer + 1) % _attention_interval(shape) != 0


def tensors(family: Family, shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield (name, dimensions, the row length last) of every tensor in the order of real files."""
    yield "token_embd.weight", (shape.n_vocab, shape.n_embd)
    if family == "phi3":
        for length in ("long", "short"):
            yield f"rope_factors_{length}.weight", (_phi3_rotated(shape) // 2,)
    if family == "gemma4":
        yield "rope_freqs.weight", (shape.head_dim // 2,)
        if shape.n_per_layer:
            all_layers = shape.n_layer * shape.n_per_layer
            yield "per_layer_token_embd.weight", (shape.n_vocab, all_layers)
            yield "per_layer_model_proj.weight", (all_layers, shape.n_embd)
            yield "per_layer_proj_norm.weight", (shape.n_per_layer,)
    for layer in range(shape.n_layer):
        for name, dims in _layer_tensors(family, shape, layer):
            yield f"blk.{layer}.{name}", dims
    yield f"{'token_embd' if family.startswith('lfm2') else 'output'}_norm.weight", (shape.n_embd,)
    if not shape.tied:
        yield "output.weight", (shape.n_vocab, shape.n_embd)


def _delta_net(family: Family, shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    embd, heads = shape.n_embd, shape.n_value_head
    values = heads * shape.state_dim
    channels = 2 * shape.n_key_head * shape.state_dim + values
    yield "attn_qkv.weight", (channels, embd)
    yield "attn_gate.weight", (values, embd)
    yield "ssm_conv1d.weight", (channels, shape.n_taps)
    yield "ssm_dt.bias", (heads,)
    yield "ssm_a", (heads,)
    if family == "qwen3next":
        yield "ssm_ba.weight", (2 * heads, embd)
    else:
        yield "ssm_beta.weight", (heads, embd)
        yield "ssm_alpha.weight", (heads, embd)
    yield "ssm_norm.weight", (shape.state_dim,)
    yield "ssm_out.weight", (embd, values)


def _short_conv(shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "shortconv.conv.weight", (shape.n_embd, shape.n_taps)
    yield "shortconv.in_proj.weight", (3 * shape.n_embd, shape.n_embd)
    yield "shortconv.out_proj.weight", (shape.n_embd, shape.n_embd)


def _layer_tensors(
    family: Family, shape: Shape, layer: int
) -> Iterator[tuple[str, tuple[int, ...]]]:
    if family not in NO_PRE_NORMS:
        yield "attn_norm.weight", (shape.n_embd,)
    if is_recurrent(family, shape, layer):
        yield from _delta_net(family, shape) if family in DELTA_NETS else _short_conv(shape)
    elif family == "gemma4":
        yield from _gemma4_attention(shape, layer)
    else:
        yield from _attention(family, shape)
    yield from _feed_forward(family, shape, layer)


def _gemma4_attention(shape: Shape, layer: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    embd, width = shape.n_embd, _local_width(shape) if is_local(layer) else shape.head_dim
    n_q, n_kv = shape.n_head * width, _n_kv_head("gemma4", shape, layer) * width
    yield "attn_q.weight", (n_q, embd)
    yield "attn_q_norm.weight", (width,)
    yield "attn_output.weight", (embd, n_q)
    if layer < shape.n_layer - shape.n_shared:
        yield "attn_k.weight", (n_kv, embd)
        yield "attn_k_norm.weight", (width,)
        if shape.n_per_layer or is_local(layer):
            yield "attn_v.weight", (n_kv, embd)


def _attention(family: Family, shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    embd = shape.n_embd
    if family == "phi3":
        yield "attn_qkv.weight", (shape.n_q + 2 * shape.n_kv, embd)
    else:
        yield "attn_q.weight", (shape.n_q * (2 if family in DELTA_NETS else 1), embd)
        yield "attn_k.weight", (shape.n_kv, embd)
        yield "attn_v.weight", (shape.n_kv, embd)
    yield "attn_output.weight", (embd, shape.n_q)
    if family in ("qwen2", "qwen2moe", "glm4", "gpt-oss"):
        yield "attn_q.bias", (shape.n_q,)
        yield "attn_k.bias", (shape.n_kv,)
        yield "attn_v.bias", (shape.n_kv,)
    if family == "gpt-oss":
        yield "attn_output.bias", (embd,)
        yield "attn_sinks.weight", (shape.n_head,)
        yield "post_attention_norm.weight", (embd,)
    if family in HEAD_NORMS:
        yield "attn_q_norm.weight", (shape.head_dim,)
        yield "attn_k_norm.weight", (shape.head_dim,)
    if family == "olmo2":
        yield "attn_q_norm.weight", (shape.n_q,)
        yield "attn_k_norm.weight", (shape.n_kv,)


def _feed_forward(
    family: Family, shape: Shape, layer: int
) -> Iterator[tuple[str, tuple[int, ...]]]:
    embd, ff = shape.n_embd, shape.n_ff
    is_dense = shape.n_expert == 0 or (family == "lfm2moe" and layer < LEADING_DENSE)
    if family == "gemma4":
        yield "layer_output_scale.weight", (1,)
        if shape.n_per_layer:
            yield "inp_gate.weight", (shape.n_per_layer, embd)
            yield "proj.weight", (embd, shape.n_per_layer)
            yield "post_norm.weight", (embd,)
    if family in POST_NORMS:
        yield "post_attention_norm.weight", (embd,)
        yield "post_ffw_norm.weight", (embd,)
    if family in DELTA_NETS:
        yield "post_attention_norm.weight", (embd,)  # of the feed-forward part's input
    elif family not in (*NO_PRE_NORMS, "gpt-oss"):
        yield "ffn_norm.weight", (embd,)
    if family == "gemma4":
        dense = _n_ff(shape, layer)
        yield "ffn_gate.weight", (dense, embd)
        yield "ffn_up.weight", (dense, embd)
        yield "ffn_down.weight", (embd, dense)
        if not shape.n_expert:
            return
        yield "ffn_gate_inp.scale", (embd,)
        yield "ffn_down_exps.scale", (shape.n_expert,)
        for norm in ("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"):
            yield f"{norm}.weight", (embd,)
    if not is_dense:
        yield "ffn_gate_inp.weight", (shape.n_expert, embd)
        yield "ffn_gate_exps.weight", (shape.n_expert, ff, embd)
        yield "ffn_up_exps.weight", (shape.n_expert, ff, embd)
        yield "ffn_down_exps.weight", (shape.n_expert, embd, ff)
        if shape.n_shared_ff:
            yield "ffn_gate_shexp.weight", (shape.n_shared_ff, embd)
            yield "ffn_up_shexp.weight", (shape.n_shared_ff, embd)
            yield "ffn_down_shexp.weight", (embd, shape.n_shared_ff)
        if family in ("qwen2moe", "qwen35moe", "qwen3next"):
            yield "ffn_gate_inp_shexp.weight", (embd,)
        if family == "gpt-oss":
            yield "ffn_gate_inp.bias", (shape.n_expert,)
            yield "ffn_gate_exps.bias", (shape.n_expert, ff)
            yield "ffn_up_exps.bias", (shape.n_expert, ff)
            yield "ffn_down_exps.bias", (shape.n_expert, embd)
        if family == "lfm2moe":
            yield "exp_probs_b.bias", (shape.n_expert,)
        return
    ff = 2 * ff if shape.n_expert else ff
    if family in FUSED_GATE:
        yield "ffn_up.weight", (2 * ff, embd)
    else:
        yield "ffn_gate.weight", (ff, embd)
        yield "ffn_up.weight", (ff, embd)
    yield "ffn_down.weight", (embd, ff)
