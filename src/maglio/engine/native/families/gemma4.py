"""Gemma 4, text: E2B, E4B, 26B-A4B and 31B."""

from __future__ import annotations

import numpy as np

from maglio._core import AttentionSpec, GateActivation, GatedSpec, ModelSpec, ParallelSpec
from maglio.engine.native.experts import experts
from maglio.engine.native.families import family
from maglio.engine.native.keys import Keys

_PATTERN = "attention.sliding_window_pattern"
_SHARED = "attention.shared_kv_layers"
_CAP = "final_logit_softcapping"


@family("gemma4")
def gemma4(keys: Keys) -> ModelSpec:
    """Heads of two shapes; the smallest sizes share keys and have embeddings for each layer.

    26B-A4B has experts beside the feed-forward part of every layer.
    """
    return keys.model(
        mixers=_mixers(keys),
        feed_forward=[
            _feed_forward(keys, layer, n_ff)
            for layer, n_ff in enumerate(keys.integers("feed_forward_length"))
        ],
        post_norms=True,
        embedding_scale=float(np.sqrt(np.float32(keys.n_embd))),
        logit_cap=keys.factor(_CAP, none=0.0) if keys.has(_CAP) else 30.0,
        output_scales=[_output_scale(keys, layer) for layer in keys.layers],
        n_embd_per_layer=keys.count("embedding_length_per_layer_input"),
    )


def _mixers(keys: Keys) -> list[AttentionSpec]:
    local = keys.flags(_PATTERN)
    if local is None:
        raise keys.error(_PATTERN, "is missing, or not one truth value per layer")
    if not all(local) and not keys.has_tensor("rope_freqs.weight"):
        raise keys.file_error("tensor 'rope_freqs.weight' is missing")
    width, window = keys.local_head_dim(), keys.integer("attention.sliding_window")
    everywhere, near = keys.rope(), keys.local_rope(head_dim=width)
    mixers = []
    for layer, n_kv_head in enumerate(keys.integers("attention.head_count_kv", keys.n_head)):
        mixer = keys.attention(
            rope=near if local[layer] else everywhere,
            window=window if local[layer] else 0,
            head_dim=width if local[layer] else None,
            n_kv_head=n_kv_head,
            scale=1.0,
            head_norms=True,
        )
        mixer.value_norms = True
        mixer.keys_as_values = not any(
            keys.has_tensor(f"blk.{layer}.{name}.weight") for name in ("attn_v", "attn_qkv")
        )
        mixers.append(mixer)
    _share_keys(keys, mixers)
    return mixers


def _share_keys(keys: Keys, mixers: list[AttentionSpec]) -> None:
    """Let the last layers read the keys and values of the last layer of their kind before them."""
    n_shared = keys.count(_SHARED)
    first = keys.n_layer - n_shared
    for layer in range(max(first, 0), keys.n_layer):
        kind = mixers[layer].window
        owners = [i for i, mixer in enumerate(mixers[: max(first, 0)]) if mixer.window == kind]
        if not owners:
            raise keys.error(_SHARED, f"is {n_shared}, but layer {layer} has none to share with")
        mixers[layer].kv_layer = owners[-1]
        for name in ("attn_k", "attn_v", "attn_k_norm"):  # files may hold them all the same
            keys.ignore_tensors(f"blk.{layer}.{name}.weight")


def _feed_forward(keys: Keys, layer: int, n_ff: int) -> GatedSpec | ParallelSpec:
    dense = keys.gated(GateActivation.GELU_TANH, n_ff=n_ff)
    if not keys.has_tensor(f"blk.{layer}.ffn_gate_inp.weight"):
        return dense
    mixture = experts(
        keys,
        n_ff=keys.integer("expert_feed_forward_length"),
        normalize=True,
        activation=GateActivation.GELU_TANH,
    )
    mixture.norms_router = True
    return ParallelSpec(dense, mixture)


def _output_scale(keys: Keys, layer: int) -> float:
    name = f"blk.{layer}.layer_output_scale.weight"
    scale = keys.vector(name)
    if scale is None:
        return 1.0
    if scale.shape != (1,):
        raise keys.file_error(f"tensor {name!r} has {scale.size} values, expected 1")
    return float(scale[0])
