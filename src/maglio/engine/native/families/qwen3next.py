"""Qwen3-Next: 80B-A3B, Coder-Next."""

from maglio._core import ModelSpec
from maglio.engine.native.families import family
from maglio.engine.native.families.qwen35 import FEED_FORWARD_NORM, gated_mixers
from maglio.engine.native.families.qwen35moe import qwen35_experts
from maglio.engine.native.keys import Keys
from maglio.engine.native.recurrent import delta_net


@family("qwen3next")
def qwen3next(keys: Keys) -> ModelSpec:
    """As qwen35moe, with value heads in groups, one for each key head."""
    mixers = gated_mixers(keys, delta_net(keys, grouped=True))
    return keys.model(mixers=mixers, feed_forward=qwen35_experts(keys), tensors=FEED_FORWARD_NORM)
