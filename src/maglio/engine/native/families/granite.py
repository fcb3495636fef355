"""Granite 3 and 4, the dense sizes and those with experts in every layer."""

from maglio._core import ModelSpec
from maglio.engine.native.experts import experts
from maglio.engine.native.families import family
from maglio.engine.native.keys import NO_ROPE, FeedForwardSpec, Keys


@family("granite")
def granite(keys: Keys) -> ModelSpec:
    """The plain shape with a factor for everything; some files have no rotation."""
    rotates = keys.flag("rope.scaling.finetuned", default=True)
    return _model(keys, keys.gated(), rotates=rotates)


@family("granitemoe")
def granitemoe(keys: Keys) -> ModelSpec:
    """The same with experts, in some files beside one that all rows share."""
    part = experts(
        keys,
        n_ff=keys.integer("feed_forward_length"),
        normalize=True,
        n_shared_ff=keys.count("expert_shared_feed_forward_length"),
    )
    return _model(keys, part)


def _model(keys: Keys, feed_forward: FeedForwardSpec, *, rotates: bool = True) -> ModelSpec:
    keys.ignore("attention.sliding_window")
    rope = keys.rope(yarn=True)
    attention = keys.attention(
        rope=rope if rotates else NO_ROPE,
        scale=keys.factor("attention.scale", keys.head_dim**-0.5),
        paired_rows=True,
    )
    return keys.model(
        mixers=[attention] * keys.n_layer,
        feed_forward=feed_forward,
        embedding_scale=keys.factor("embedding_scale"),
        residual_scale=keys.factor("residual_scale"),
        logit_scale=1.0 / keys.real("logit_scale"),
    )
