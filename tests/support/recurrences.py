"""Recurrent layers in numpy, position by position: part of the reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def convolved(x: Array, taps: Array) -> Array:
    """Causal convolution of ``(position, channel)`` with ``(channel, tap)``."""
    before = np.zeros((taps.shape[1] - 1, x.shape[1]), x.dtype)
    padded = np.concatenate([before, x])
    return sum(padded[t : t + len(x)] * taps[:, t] for t in range(taps.shape[1]))


def by_group(x: Array, n_group: int, parts: Sequence[int]) -> list[Array]:
    """Split columns that lie in groups, each of which has all parts; a part's own lie together."""
    groups = x.reshape(len(x), n_group, sum(parts))
    cuts = np.cumsum(parts)[:-1].tolist()
    return [part.reshape(len(x), -1) for part in np.split(groups, cuts, axis=2)]


def delta_net(
    mixed: Array, rate: Array, decay: Array, *, n_k: int, key_of: Sequence[int], eps: float
) -> Array:
    """Gated delta rule over rows of queries, keys and values; ``(position, value head, width)``.

    ``key_of`` has the key head of each value head.
    """
    n_v = len(key_of)
    n, d = len(mixed), mixed.shape[1] // (2 * n_k + n_v)
    q, k, v = np.split(mixed, [n_k * d, 2 * n_k * d], axis=1)
    q, k = (heads.reshape(n, n_k, d) for heads in (q, k))
    q, k = (h / np.sqrt((h * h).sum(axis=-1, keepdims=True) + eps) for h in (q, k))
    v = v.reshape(n, n_v, d)
    out = np.empty_like(v)
    for head in range(n_v):
        state = np.zeros((d, d), mixed.dtype)
        for row in range(n):
            key, query = k[row, key_of[head]], q[row, key_of[head]]
            state = state * decay[row, head]
            state += np.outer(key, rate[row, head] * (v[row, head] - state.T @ key))
            out[row, head] = state.T @ query / np.sqrt(d)
    return out
