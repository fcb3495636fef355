"""The sampler's definition, written slowly: the whole vocabulary is sorted, sums are integers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from maglio.decode import SamplingParams

UNIT = 2**44


def philox4x32(counter: Sequence[int], key: Sequence[int]) -> list[int]:
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def uniform53(seed: int, position: int) -> int:
    """The draw at ``position`` as a numerator over 2**53."""
    low, high = position & 0xFFFFFFFF, position >> 32
    words = philox4x32([low, high, 0, 0], [seed & 0xFFFFFFFF, seed >> 32])
    return (words[0] | words[1] << 32) >> 11


def adjust(row: np.ndarray, params: SamplingParams, history: Sequence[int]) -> np.ndarray:
    """Penalties and bias."""
    logits = row.astype(np.float32).copy()
    n = params.penalty_last_n
    window = history if n < 0 else history[len(history) - min(n, len(history)) :]
    for token, count in Counter(window).items():
        z = float(logits[token])
        z = z / params.repeat_penalty if z > 0 else z * params.repeat_penalty
        z -= count * params.frequency_penalty + params.presence_penalty
        logits[token] = z
    for token, bias in params.bias_pairs:
        logits[token] = float(logits[token]) + bias
    return logits


def weights(logits: np.ndarray, temperature: float) -> list[int]:
    """exp((logit - best) / temperature) in units of 2**-44, operation for operation."""
    f = np.float32
    with np.errstate(over="ignore"):
        x = (logits - logits.max()) * f(1.0 / min(max(temperature, 1e-30), 1e30))
    x = np.maximum(x, f(-64.0))
    n = np.rint(x * f(1.44269504088896341))
    r = (x - n * f(0.693359375)) - n * f(-2.12194440e-4)
    p = np.full_like(x, f(1.9875691500e-4))
    for c in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        p = p * r + f(c)
    p = (p * (r * r) + r) + f(1.0)
    p = np.ldexp(p, n.astype(np.int32))
    assert p.dtype == np.float32
    return [int(w) for w in np.rint(p.astype(np.float64) * UNIT)]


def candidates(logits: np.ndarray, params: SamplingParams) -> list[tuple[int, int]]:
    """(token, weight) in candidate order, after the filters."""
    weight = weights(logits, params.temperature)
    order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))
    kept = [(i, weight[i]) for i in order if logits[i] > -math.inf]
    if params.top_k:
        kept = kept[: params.top_k]
    if params.top_p < 1.0:
        total = sum(w for _, w in kept)
        needed = min(max(math.ceil(params.top_p * float(total)), 1), total)
        mass = 0
        for index, (_, w) in enumerate(kept):
            mass += w
            if mass >= needed:
                kept = kept[: index + 1]
                break
    if params.min_p > 0.0:
        floor = max(math.ceil(params.min_p * UNIT), 1)
        kept = [(i, w) for i, w in kept if w >= floor]
    return kept


def sample(row: np.ndarray, params: SamplingParams, history: Sequence[int], position: int) -> int:
    logits = adjust(row, params, history)
    if params.temperature <= 0.0:
        return int(np.argmax(logits))
    kept = candidates(logits, params)
    target = uniform53(params.seed, position) * sum(w for _, w in kept) >> 53
    for token, w in kept:
        if target < w:
            return token
        target -= w
    raise AssertionError("the target lies within the total")
