"""Qwen1.5-MoE and Qwen2, the sizes with experts: A2.7B, 57B-A14B."""

from maglio._core import ModelSpec
from maglio.engine.native.experts import experts, own_length
from maglio.engine.native.families import family
from maglio.engine.native.keys import Keys


@family("qwen2moe")
def qwen2moe(keys: Keys) -> ModelSpec:
    """The attention of Qwen2; a shared expert that rows weigh, and weights as they are."""
    keys.ignore("attention.sliding_window")
    attention = keys.attention(rope=keys.rope(yarn=True))
    shared = "expert_shared_feed_forward_length"
    part = experts(
        keys,
        n_ff=own_length(keys),
        normalize=False,
        n_shared_ff=keys.integer(shared if keys.has(shared) else "feed_forward_length"),
        weighs_shared=True,
    )
    return keys.model(mixers=[attention] * keys.n_layer, feed_forward=part)
