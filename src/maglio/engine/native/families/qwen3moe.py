"""Qwen3, the sizes with experts: 30B-A3B, Coder 30B-A3B, 235B-A22B."""

from maglio._core import ModelSpec
from maglio.engine.native.experts import experts, own_length
from maglio.engine.native.families import family
from maglio.engine.native.keys import Keys


@family("qwen3moe")
def qwen3moe(keys: Keys) -> ModelSpec:
    """The attention of Qwen3; every layer has experts. llama.cpp knows no window of it."""
    keys.ignore("attention.sliding_window")
    attention = keys.attention(rope=keys.rope(yarn=True), head_norms=True)
    return keys.model(
        mixers=[attention] * keys.n_layer,
        feed_forward=experts(keys, n_ff=own_length(keys), normalize=True),
    )
