"""Granite 3 and 4, the dense sizes."""

from maglio._core import ModelSpec
from maglio.engine.native.families import family
from maglio.engine.native.keys import NO_ROPE, Keys


@family("granite")
def granite(keys: Keys) -> ModelSpec:
    """The plain shape with a factor for everything; some files have no rotation."""
    keys.ignore("attention.sliding_window")
    rope = keys.rope(yarn=True)
    rotates = keys.flag("rope.scaling.finetuned", default=True)
    attention = keys.attention(
        rope=rope if rotates else NO_ROPE,
        scale=keys.factor("attention.scale", keys.head_dim**-0.5),
        paired_rows=True,
    )
    return keys.model(
        mixers=[attention] * keys.n_layer,
        feed_forward=keys.gated(),
        embedding_scale=keys.factor("embedding_scale"),
        residual_scale=keys.factor("residual_scale"),
        logit_scale=1.0 / keys.real("logit_scale"),
    )
