"""LFM2, the sizes with experts: 8B-A1B, 24B-A2B."""

from maglio._core import Gating, ModelSpec
from maglio.engine.native.experts import experts, gating
from maglio.engine.native.families import family
from maglio.engine.native.families.lfm2 import lfm2_mixers
from maglio.engine.native.keys import Keys


@family("lfm2moe")
def lfm2moe(keys: Keys) -> ModelSpec:
    """The mixers of the dense sizes; experts in all but the first layers."""
    n_dense = min(keys.count("leading_dense_block_count"), keys.n_layer)
    part = experts(
        keys,
        n_ff=keys.integer("expert_feed_forward_length"),
        normalize=True,
        gating=gating(keys, Gating.SIGMOID),
    )
    return keys.model(
        mixers=lfm2_mixers(keys),
        feed_forward=[keys.gated()] * n_dense + [part] * (keys.n_layer - n_dense),
        output_norm="token_embd_norm.weight",
    )
