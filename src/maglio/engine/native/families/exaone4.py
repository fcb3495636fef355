"""EXAONE 4."""

from maglio._core import ModelSpec
from maglio.engine.native.families import family
from maglio.engine.native.keys import NO_ROPE, Keys

_LAYERS_WITH_WINDOWS = 64
"""Layers of the 32B, the one size whose layers have windows."""


@family("exaone4")
def exaone4(keys: Keys) -> ModelSpec:
    """Only outputs are normed; layers that see the whole context beside windows do not rotate."""
    window = keys.integer("attention.sliding_window", 4096)
    rope = keys.rope()
    mixers = [keys.attention(rope=rope, head_norms=True)] * keys.n_layer
    if keys.n_layer == _LAYERS_WITH_WINDOWS:
        everywhere = keys.attention(rope=NO_ROPE, head_norms=True)
        local = keys.attention(rope=rope, head_norms=True, window=window)
        mixers = [local if is_local else everywhere for is_local in keys.local_layers(4)]
    return keys.model(mixers=mixers, feed_forward=keys.gated(), pre_norms=False, post_norms=True)
