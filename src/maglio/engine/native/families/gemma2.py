"""Gemma 2."""

import numpy as np

from maglio._core import GateActivation, ModelSpec
from maglio.engine.native.families import family
from maglio.engine.native.keys import Keys

_WIDE_LAYERS = 46
"""Layers of the 27B, the one size that scales scores by the mean head width."""


@family("gemma2")
def gemma2(keys: Keys) -> ModelSpec:
    """Every other layer has a sliding window; scores and logits are capped."""
    scale = float(keys.mean_head_width**-0.5) if keys.n_layer == _WIDE_LAYERS else None
    cap = keys.real("attn_logit_softcapping", 50.0)
    window = keys.integer("attention.sliding_window", 4096)
    rope = keys.rope()
    everywhere = keys.attention(rope=rope, scale=scale, cap=cap)
    local = keys.attention(rope=rope, scale=scale, cap=cap, window=window)
    return keys.model(
        mixers=[local if is_local else everywhere for is_local in keys.local_layers(2)],
        feed_forward=keys.gated(GateActivation.GELU_TANH),
        post_norms=True,
        embedding_scale=float(np.sqrt(np.float32(keys.n_embd))),
        logit_cap=keys.real("final_logit_softcapping", 30.0),
    )
