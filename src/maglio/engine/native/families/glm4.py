"""GLM-4 (0414), 9B and 32B."""

from maglio._core import ModelSpec
from maglio.engine.native.families import family
from maglio.engine.native.keys import Keys


@family("glm4")
def glm4(keys: Keys) -> ModelSpec:
    """Outputs are normed too, gate and up are fused, and half of a head is rotated, in pairs."""
    keys.ignore("attention.sliding_window")
    attention = keys.attention(rope=keys.rope(partial=True, yarn=True), paired_rows=True)
    return keys.model(
        mixers=[attention] * keys.n_layer,
        feed_forward=keys.gated(),
        post_norms=True,
        tensors=keys.fused_gate(),
    )
