"""Qwen3, the dense sizes."""

from maglio._core import ModelSpec
from maglio.engine.native.families import family
from maglio.engine.native.keys import Keys


@family("qwen3")
def qwen3(keys: Keys) -> ModelSpec:
    """Queries and keys are normed per head. llama.cpp knows no window of it."""
    keys.ignore("attention.sliding_window")
    attention = keys.attention(rope=keys.rope(yarn=True), head_norms=True)
    return keys.model(mixers=[attention] * keys.n_layer, feed_forward=keys.gated())
