"""Metadata keys that change nothing of what a model computes, with values that could.

``scripts/check_keys.py`` shows that llama.cpp's logits do not change with any of them.
"""

from __future__ import annotations

from maglio.gguf import ModelFile

Value = bool | int | float | str

READ = {
    "gemma2": {"attention.sliding_window", "attn_logit_softcapping", "final_logit_softcapping"},
    "gemma3": {"attention.sliding_window"},
    "gemma4": {
        "attention.key_length_swa",
        "attention.sliding_window",
        "attention.value_length_swa",
        "final_logit_softcapping",
        "rope.dimension_count_swa",
    },
    "olmo2": {"attention.sliding_window"},
    "granite": {"rope.scaling.finetuned"},
    "granitemoe": {"expert_count", "expert_used_count"},
    "qwen2moe": {"expert_count", "expert_used_count", "expert_feed_forward_length"},
    "lfm2": {"attention.sliding_window"},
    "lfm2moe": {
        "attention.sliding_window",
        "expert_count",
        "expert_used_count",
        "expert_feed_forward_length",
        "expert_gating_func",
        "leading_dense_block_count",
    },
    "qwen35moe": {"expert_count", "expert_used_count", "expert_feed_forward_length"},
    "qwen3next": {"expert_count", "expert_used_count", "expert_feed_forward_length"},
    "qwen3moe": {"expert_count", "expert_used_count", "expert_feed_forward_length"},
    "gpt-oss": {
        "attention.sliding_window",
        "expert_count",
        "expert_used_count",
        "expert_feed_forward_length",
        "rope.scaling.attn_factor",
        "rope.scaling.factor",
        "rope.scaling.original_context_length",
    },
    "phi3": {"rope.scaling.attn_factor", "rope.scaling.original_context_length"},
    "mistral3": {
        "rope.scaling.attn_factor",
        "rope.scaling.factor",
        "rope.scaling.original_context_length",
        "rope.scaling.yarn_beta_fast",
        "rope.scaling.yarn_beta_slow",
        "rope.scaling.yarn_log_multiplier",
    },
}
"""Those of them that a family does read."""


def harmless_keys(file: ModelFile) -> dict[str, Value]:
    """Return names without the architecture's prefix, for a tiny model."""
    family = file.text("general.architecture")
    head_dim = file.integer(f"{family}.attention.key_length")
    keys: dict[str, Value] = {
        "attention.causal": True,
        "attention.key_length_swa": head_dim,
        "attention.layer_norm_epsilon": 0.5,
        "attention.value_length_swa": head_dim,
        "attn_logit_softcapping": 0.0,
        "classifier.pooling_type": 2,
        "embedding_length_out": file.integer(f"{family}.embedding_length"),
        "expert_count": 0,
        "expert_feed_forward_length": 64,
        "expert_gating_func": 2,
        "expert_group_count": 0,
        "expert_group_used_count": 0,
        "expert_shared_count": 1,
        "expert_used_count": 0,
        "expert_weights_norm": True,
        "expert_weights_scale": 2.5,
        "final_logit_softcapping": 0.0,
        "leading_dense_block_count": 1,
        "mm.tokens_per_image": 256,
        "nextn_predict_layers": 0,
        "pooling_type": 3,
        "rope.dimension_count_swa": file.integer(f"{family}.rope.dimension_count", head_dim),
        "rope.scaling.attn_factor": 1.0,
        "rope.scaling.factor": 0.0,
        "rope.scaling.finetuned": False,
        "rope.scaling.original_context_length": 8192,
        "rope.scaling.yarn_beta_fast": 8.0,
        "rope.scaling.yarn_beta_slow": 4.0,
        "rope.scaling.yarn_log_multiplier": 0.5,
        "tensor_data_layout": "Meta AI original pth",
        "vision.block_count": 27,
        "vocab_size": file.tensors["token_embd.weight"].shape[1],
        "attention.sliding_window": 2,
    }
    return {key: value for key, value in keys.items() if key not in READ.get(family, ())}
