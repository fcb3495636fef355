"""Qwen3.5 and Qwen3.6, the dense sizes."""

from collections.abc import Sequence

from maglio._core import DeltaNetSpec, ModelSpec, Source
from maglio.engine.native.families import family
from maglio.engine.native.keys import Keys, MixerSpec
from maglio.engine.native.recurrent import (
    delta_net,
    leave_out_predictors,
    recurrent_layers,
    whole_numbers,
)

FEED_FORWARD_NORM = {"ffn_norm.weight": Source("post_attention_norm.weight")}


@family("qwen35")
def qwen35(keys: Keys) -> ModelSpec:
    """Three of four layers are gated delta nets; attention is gated, a part of a head rotates."""
    return keys.model(
        mixers=qwen35_mixers(keys), feed_forward=keys.gated(), tensors=FEED_FORWARD_NORM
    )


def qwen35_mixers(keys: Keys) -> Sequence[MixerSpec]:
    """Describe the mixer of every layer."""
    mixers = gated_mixers(keys, delta_net(keys))
    _check_sections(keys)
    return mixers


def gated_mixers(keys: Keys, net: DeltaNetSpec) -> Sequence[MixerSpec]:
    """Describe the mixer of every layer: ``net``, or attention with gates."""
    keys.ignore("attention.sliding_window")  # llama.cpp knows none of it
    is_recurrent = recurrent_layers(keys)
    leave_out_predictors(keys)
    attention = keys.attention(rope=keys.rope(partial=True, yarn=True), head_norms=True, gated=True)
    return [net if is_recurrent[layer] else attention for layer in keys.layers]


def _check_sections(keys: Keys) -> None:
    """Pairs of a head rotate by time, height and width in turn, as far as a section reaches.

    These are equal in a text, and then it is the usual rotation; what no section reaches is not.
    """
    name = "rope.dimension_sections"
    sections = whole_numbers(keys, name)
    pairs = keys.integer("rope.dimension_count", keys.head_dim) // 2
    reach = [3 * n + i for i, n in enumerate(sections[:3])] if len(sections) == 4 else [0]
    if min(reach) < pairs:
        raise keys.error(name, f"does not cover the {pairs} pairs of a head that rotate")
