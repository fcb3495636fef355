"""Gemma 3, text."""

import numpy as np

from maglio._core import GateActivation, ModelSpec
from maglio.engine.native.families import family
from maglio.engine.native.keys import Keys

_WIDE_LAYERS = 62
"""Layers of the 27B, the one size that scales scores by the mean head width."""


@family("gemma3")
def gemma3(keys: Keys) -> ModelSpec:
    """Five layers with a sliding window to each that sees the whole context."""
    scale = float(keys.mean_head_width**-0.5) if keys.n_layer == _WIDE_LAYERS else None
    everywhere = keys.attention(rope=keys.rope(), scale=scale, head_norms=True)
    local = everywhere
    if keys.has("attention.sliding_window"):
        window = keys.integer("attention.sliding_window")
        local = keys.attention(rope=keys.local_rope(), window=window, scale=scale, head_norms=True)
    return keys.model(
        mixers=[local if is_local else everywhere for is_local in keys.local_layers(6)],
        feed_forward=keys.gated(GateActivation.GELU_TANH),
        post_norms=True,
        embedding_scale=float(np.sqrt(np.float32(keys.n_embd))),
    )
