"""Ministral 3."""

from maglio._core import ModelSpec
from maglio.engine.native.families import family
from maglio.engine.native.keys import Keys


@family("mistral3")
def mistral3(keys: Keys) -> ModelSpec:
    """The plain shape with YaRN; queries grow with every length of the original context."""
    keys.ignore("attention.sliding_window")
    rope = keys.rope(yarn=True, yarn_details=True)
    attention = keys.attention(rope=rope, paired_rows=True)
    attention.temperature = keys.factor("attention.temperature_scale", 0.0)
    attention.temperature_length = keys.original_context()
    return keys.model(mixers=[attention] * keys.n_layer, feed_forward=keys.gated())
