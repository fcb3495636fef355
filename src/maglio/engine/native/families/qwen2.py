"""Qwen2 and Qwen2.5."""

from maglio._core import ModelSpec
from maglio.engine.native.families import family
from maglio.engine.native.keys import Keys


@family("qwen2")
def qwen2(keys: Keys) -> ModelSpec:
    """The plain shape; its biases are read where they are. llama.cpp knows no window of it."""
    keys.ignore("attention.sliding_window")
    attention = keys.attention(rope=keys.rope(yarn=True))
    return keys.model(mixers=[attention] * keys.n_layer, feed_forward=keys.gated())
