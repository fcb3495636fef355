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
    window = keys.count("attention.sliding_window")
    if window == 0:  # llama.cpp reads nothing else of windows then
        keys.ignore("attention.sliding_window_pattern")
        keys.ignore("rope.freq_base_swa")
        mixers = [everywhere] * keys.n_layer
    else:
        rope = keys.local_rope()
        local = keys.attention(rope=rope, window=window, scale=scale, head_norms=True)
        mixers = [local if is_local else everywhere for is_local in keys.local_layers(6)]
    return keys.model(
        mixers=mixers,
        feed_forward=keys.gated(GateActivation.GELU_TANH),
        post_norms=True,
        embedding_scale=float(np.sqrt(np.float32(keys.n_embd))),
    )
