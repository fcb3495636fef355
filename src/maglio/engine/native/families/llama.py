"""Llama and what shares its shape: Mistral 7B, Mixtral, SmolLM2, Llama 3, and many others."""

from maglio._core import ModelSpec
from maglio.engine.native.experts import experts
from maglio.engine.native.families import family
from maglio.engine.native.keys import Keys


@family("llama")
def llama(keys: Keys) -> ModelSpec:
    """The plain shape, with query and key rows in pairs. llama.cpp knows no window of it either.

    Files with experts have them in every layer.
    """
    keys.ignore("attention.sliding_window")
    attention = keys.attention(rope=keys.rope(yarn=True), paired_rows=True)
    if keys.count("expert_count") > 0:
        part = experts(keys, n_ff=keys.integer("feed_forward_length"), normalize=True)
        return keys.model(mixers=[attention] * keys.n_layer, feed_forward=part)
    return keys.model(mixers=[attention] * keys.n_layer, feed_forward=keys.gated())
