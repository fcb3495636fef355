"""Sub-layers of experts, as the page of a family describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maglio import _core
from maglio._core import GateActivation, Gating

if TYPE_CHECKING:
    from maglio.engine.native.keys import Keys

_GATINGS = {1: Gating.SOFTMAX, 2: Gating.SIGMOID}
"""By the values of ``expert_gating_func``."""


def experts(
    keys: Keys,
    *,
    n_ff: int,
    normalize: bool,
    gating: Gating = Gating.SOFTMAX,
    scale: float = 1.0,
    activation: GateActivation = GateActivation.SILU,
    n_shared_ff: int = 0,
    weighs_shared: bool = False,
) -> _core.ExpertsSpec:
    """Describe a feed-forward sub-layer of experts, of which a row takes the best few.

    Biases of the router, of its choice alone, and of experts are read where a file has them, and
    so are gate and up projections in one tensor.

    Args:
        keys: the metadata, which says how many experts and groups of them there are.
        n_ff: values in the middle of one expert.
        normalize: the weights of those that a row takes are divided by their sum.
        gating: what a row's products with the router become.
        scale: a factor of those weights.
        activation: of an expert.
        n_shared_ff: values in the middle of an expert that every row takes beside; 0 for none.
        weighs_shared: how much it counts depends on the row.
    """
    spec = _core.ExpertsSpec()
    spec.n_ff = n_ff
    spec.n_expert = keys.integer("expert_count")
    spec.n_used = keys.integer("expert_used_count")
    keys.ignore("feed_forward_length")  # of dense layers, where there are any
    keys.ignore("expert_group_used_count")
    if (n_group := keys.count("expert_group_count")) > 1:
        spec.n_group = n_group
        spec.n_group_used = keys.integer("expert_group_used_count")
    spec.gating = gating
    spec.normalize = normalize
    spec.scale = scale
    spec.activation = activation
    spec.n_shared_ff = n_shared_ff
    spec.weighs_shared = weighs_shared
    return spec


def own_length(keys: Keys) -> int:
    """Return the length of an expert; its share of a dense sub-layer's if the file has none."""
    if keys.has("expert_feed_forward_length"):
        return keys.integer("expert_feed_forward_length")
    return keys.integer("feed_forward_length") // keys.integer("expert_used_count")


def gating(keys: Keys, default: Gating) -> Gating:
    """Return what the file says of the router's products."""
    name = "expert_gating_func"
    value = keys.count(name)
    if value == 0:
        return default
    if value not in _GATINGS:
        raise keys.unsupported(name, f"is {value}, which the native engine does not support")
    return _GATINGS[value]


def after_dense(
    keys: Keys, part: _core.ExpertsSpec, dense: _core.GatedSpec
) -> list[_core.ExpertsSpec | _core.GatedSpec]:
    """Return the sub-layer of every layer: ``dense`` in the first ones, as many as the file says.

    Raises:
        ModelFileError: the file says more than there are.
    """
    name = "leading_dense_block_count"
    if (n_dense := keys.count(name)) > keys.n_layer:
        raise keys.error(name, f"is {n_dense}, but there are {keys.n_layer} layers")
    return [dense] * n_dense + [part] * (keys.n_layer - n_dense)
