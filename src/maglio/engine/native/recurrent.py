"""Metadata of recurrent layers, as the pages of families read it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maglio import _core
from maglio.engine.native.keys import Keys


def recurrent_layers(keys: Keys) -> Sequence[bool]:
    """Which layers are recurrent: all but every n-th, unless the file says which.

    Raises:
        ModelFileError: a key is implausible, here and in all functions.
    """
    period = keys.integer("full_attention_interval", 4)
    name = "attention.recurrent_layers"
    flags = keys.flags(name)
    if flags is not None:
        return [bool(flag) for flag in flags]
    if keys.has(name):
        raise keys.error(name, "is not one truth value per layer")
    return [(layer + 1) % period != 0 for layer in keys.layers]


def delta_net(keys: Keys, *, grouped: bool = False) -> _core.DeltaNetSpec:
    """Describe a gated delta net.

    Args:
        keys: the metadata.
        grouped: value heads of a key head lie together; otherwise key heads take turns.
    """
    spec = _core.DeltaNetSpec()
    spec.grouped = grouped
    spec.n_key_head = keys.integer("ssm.group_count")
    spec.n_value_head = keys.integer("ssm.time_step_rank")
    spec.head_dim = keys.integer("ssm.state_size")
    spec.n_taps = keys.integer("ssm.conv_kernel")
    if keys.integer("ssm.inner_size") != spec.n_value_head * spec.head_dim:
        raise keys.error("ssm.inner_size", "is not the width of all value heads, as it has to be")
    return spec


def short_conv(keys: Keys) -> _core.ShortConvSpec:
    """Describe a gated short convolution."""
    spec = _core.ShortConvSpec()
    spec.channels = keys.n_embd
    spec.n_taps = keys.integer("shortconv.l_cache")
    return spec


def counts(keys: Keys, name: str) -> Sequence[int]:
    """Return a count per layer, none where it is 0: an array, or one for all."""
    values = whole_numbers(keys, name)
    if not values:
        return [keys.integer(name)] * keys.n_layer
    if len(values) != keys.n_layer:
        raise keys.error(name, "is not one count per layer")
    return values


def whole_numbers(keys: Keys, name: str) -> Sequence[int]:
    """Return an array of numbers from 0 up; empty if the key holds no array."""
    numbers = [int(n) if isinstance(n, int | np.integer) else -1 for n in keys.array(name) or ()]
    if not all(0 <= n < 2**31 for n in numbers):
        raise keys.error(name, "is not an array of counts")
    return numbers


def leave_out_predictors(keys: Keys) -> None:
    """Let pass the blocks after the last layer that predict further tokens."""
    name = "nextn_predict_layers"
    first = keys.n_layer - keys.count(name)
    if first < 1:
        raise keys.error(name, "leaves no layers")
    if first < keys.n_layer:
        keys.ignore_tensors(*(f"blk.{block}." for block in range(first, keys.n_layer)))
    keys.n_layer = first
