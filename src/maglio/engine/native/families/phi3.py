"""Phi-3, Phi-3.5, Phi-4 and Phi-4-mini."""

from maglio._core import ModelSpec
from maglio.engine.native.families import family
from maglio.engine.native.keys import Keys


@family("phi3")
def phi3(keys: Keys) -> ModelSpec:
    """Fused projections; sessions that may become long have a rotation of their own."""
    keys.ignore("attention.sliding_window")  # llama.cpp has switched it off
    attention = keys.attention(rope=keys.long_rope(partial=True))
    return keys.model(
        mixers=[attention] * keys.n_layer,
        feed_forward=keys.gated(),
        tensors=keys.fused_gate(),
    )
