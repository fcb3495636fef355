"""Qwen3.5 and Qwen3.6, the sizes with experts: 35B-A3B, 122B-A10B, 397B-A17B."""

from maglio._core import ExpertsSpec, ModelSpec
from maglio.engine.native.experts import experts, own_length
from maglio.engine.native.families import family
from maglio.engine.native.families.qwen35 import FEED_FORWARD_NORM, qwen35_mixers
from maglio.engine.native.keys import Keys


@family("qwen35moe")
def qwen35moe(keys: Keys) -> ModelSpec:
    """The mixers of the dense sizes; experts, and a shared one that rows weigh."""
    part = qwen35_experts(keys)
    return keys.model(mixers=qwen35_mixers(keys), feed_forward=part, tensors=FEED_FORWARD_NORM)


def qwen35_experts(keys: Keys) -> ExpertsSpec:
    """Describe the feed-forward sub-layer of every layer."""
    shared = "expert_shared_feed_forward_length"
    return experts(
        keys,
        n_ff=own_length(keys),
        normalize=True,
        n_shared_ff=keys.integer(shared if keys.has(shared) else "feed_forward_length"),
        weighs_shared=True,
    )
