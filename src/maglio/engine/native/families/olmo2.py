"""OLMo 2 and OLMo 3."""

from maglio._core import ModelSpec
from maglio.engine.native.families import family
from maglio.engine.native.keys import Keys


@family("olmo2")
def olmo2(keys: Keys) -> ModelSpec:
    """Only outputs are normed, and queries and keys over all heads; OLMo 3 has windows."""
    everywhere = keys.attention(rope=keys.rope(yarn=True), wide_norms=True)
    mixers = [everywhere] * keys.n_layer
    window = keys.count("attention.sliding_window")
    if window == 0:  # llama.cpp reads nothing else of windows then
        keys.ignore("attention.sliding_window_pattern")
        keys.ignore("rope.freq_base_swa")
    else:
        rope = keys.local_rope(keys.real("rope.freq_base", 10000.0))
        local = keys.attention(rope=rope, window=window, wide_norms=True)
        mixers = [local if is_local else everywhere for is_local in keys.local_layers(4)]
    return keys.model(mixers=mixers, feed_forward=keys.gated(), pre_norms=False, post_norms=True)
