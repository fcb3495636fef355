"""The sampler's definition, written slowly: the whole vocabulary is sorted, sums are integers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

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


def uniform53(seed: int, position: int, stream: int = 0) -> int:
    """The draw at ``position`` as a numerator over 2**53."""
    low, high = position & 0xFFFFFFFF, position >> 32
    words = philox4x32([low, high, stream, 0], [seed & 0xFFFFFFFF, seed >> 32])
    return (words[0] | words[1] << 32) >> 11


@dataclass(frozen=True)
class History:
    """The tokens so far, where the answer begins, and which tokens are never penalised."""

    tokens: Sequence[int] = ()
    answer: int = 0
    exempt: Collection[int] = ()


def last(tokens: Sequence[int], n: int) -> Sequence[int]:
    return tokens if n < 0 else tokens[len(tokens) - min(n, len(tokens)) :]


def penalties(logits: np.ndarray, params: SamplingParams, history: History) -> None:
    for token in set(last(history.tokens, params.penalty_last_n)) - set(history.exempt):
        z = float(logits[token])
        logits[token] = z / params.repeat_penalty if z > 0 else z * params.repeat_penalty
    for token, count in Counter(history.tokens[history.answer :]).items():
        if token not in history.exempt:
            penalty = count * params.frequency_penalty + params.presence_penalty
            logits[token] = float(logits[token]) - penalty


def since_break(tokens: list[int], sequences: list[tuple[int, ...]]) -> int:
    """How many tokens follow the last breaker; the longest that begins there."""
    for at in reversed(range(len(tokens))):
        ends = [at + len(s) for s in sequences if tuple(tokens[at : at + len(s)]) == s]
        if ends:
            return len(tokens) - max(ends)
    return len(tokens)


def repetitions(params: SamplingParams, history: History) -> dict[int, int]:
    """By token, the longest repetition that it would prolong."""
    tokens = list(last(history.tokens, params.dry_penalty_last_n))
    sequences = [b if isinstance(b, tuple) else (b,) for b in params.dry_breakers]
    sequences += [(token,) for token in history.exempt]
    breaks = {sequence[0] for sequence in sequences if len(sequence) == 1}
    reach = since_break(tokens, sequences)
    longest: dict[int, int] = {}
    for end in range(1, len(tokens)):  # what came before tokens[end], against what comes now
        length = 0
        while length < min(end, reach) and tokens[-1 - length] == tokens[end - 1 - length]:
            length += 1
        if tokens[end] not in breaks:
            longest[tokens[end]] = max(length, longest.get(tokens[end], 0))
    return longest


def dry(logits: np.ndarray, params: SamplingParams, history: History) -> None:
    if params.dry_multiplier == 0.0:
        return
    for token, length in repetitions(params, history).items():
        if length >= params.dry_allowed_length:
            penalty = min(params.dry_multiplier, 1e30)
            for _ in range(length - params.dry_allowed_length):
                penalty = min(penalty * params.dry_base, 1e30)
            logits[token] = float(logits[token]) - penalty


def adjust(row: np.ndarray, params: SamplingParams, history: History) -> np.ndarray:
    """The steps on the whole row."""
    logits = row.astype(np.float32).copy()
    for step in params.steps:
        if step == "penalties":
            penalties(logits, params, history)
        elif step == "dry":
            dry(logits, params, history)
        elif step == "logit_bias":
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


Weighed = list[tuple[int, int]]  # (token, weight) in candidate order


def mass_of(kept: Weighed) -> int:
    return sum(w for _, w in kept)


def share_of(share: float, whole: int) -> int:
    return min(max(math.ceil(share * float(whole)), 1), whole)


def prefix(kept: Weighed, needed: int, min_keep: int) -> Weighed:
    """The shortest beginning of at least this mass and so many tokens."""
    mass = 0
    for index, (_, w) in enumerate(kept):
        mass += w
        if mass >= needed and index + 1 >= min_keep:
            return kept[: index + 1]
    return kept


def top_n_sigma(kept: Weighed, logits: np.ndarray, n: float) -> Weighed:
    best = logits[kept[0][0]]
    with np.errstate(over="ignore"):
        below = {i: float(best - logits[i]) for i, _ in kept}
    units = [int(min(d, 1024.0) * 2**12 + 0.5) for d in below.values()]
    variance = len(kept) * sum(q * q for q in units) - sum(units) ** 2
    most = n * (math.sqrt(float(variance)) / (len(kept) * 2.0**12))
    return [(i, w) for i, w in kept if below[i] <= most]


def typical(kept: Weighed, logits: np.ndarray, temperature: float, p: float, least: int) -> Weighed:
    f = np.float32
    inverse = f(1.0 / min(max(temperature, 1e-30), 1e30))
    with np.errstate(over="ignore"):
        x = {i: min(float((logits[kept[0][0]] - logits[i]) * inverse), 64.0) for i, _ in kept}
    surprise = {i: int(x[i] * 2**20 + 0.5) for i, _ in kept}
    expected = sum(surprise[i] * w for i, w in kept) // mass_of(kept)
    by_distance = sorted(kept, key=lambda item: (abs(surprise[item[0]] - expected), item[0]))
    chosen = set(prefix(by_distance, share_of(p, mass_of(kept)), least))
    return [item for item in kept if item in chosen]


def xtc(kept: Weighed, params: SamplingParams, position: int) -> Weighed:
    coin = uniform53(params.seed, position, stream=1) * 2.0**-53
    needed = share_of(params.xtc_threshold, mass_of(kept))
    top = [item for item in kept if item[1] >= needed]
    dropped = set(top[:-1])
    rest = [item for item in kept if item not in dropped]
    return rest if coin < params.xtc_probability and len(rest) >= params.min_keep else kept


def candidates(
    logits: np.ndarray, params: SamplingParams, position: int = 0
) -> list[tuple[int, int]]:
    """(token, weight) in candidate order, after the filters."""
    order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))
    temperature, least = 1.0, params.min_keep
    ids = [i for i in order if logits[i] > -math.inf]
    kept = list(zip(ids, weights(logits[ids], temperature), strict=True))
    for step in params.steps:
        if step == "temperature":
            temperature = params.temperature
        elif step == "top_n_sigma" and params.top_n_sigma > 0.0:
            few, kept = kept, top_n_sigma(kept, logits, params.top_n_sigma)
            kept = kept if len(kept) >= least else few[:least]
        elif step == "top_k" and params.top_k:
            kept = kept[: params.top_k]
        elif step == "typical_p" and params.typical_p < 1.0:
            kept = typical(kept, logits, temperature, params.typical_p, least)
        elif step == "top_p" and params.top_p < 1.0:
            kept = prefix(kept, share_of(params.top_p, mass_of(kept)), least)
        elif step == "min_p" and params.min_p > 0.0:
            floor = max(math.ceil(params.min_p * UNIT), 1)
            few, kept = kept, [(i, w) for i, w in kept if w >= floor]
            kept = kept if len(kept) >= least else few[:least]
        elif step == "xtc":
            kept = xtc(kept, params, position)
        ids = [i for i, _ in kept]
        kept = list(zip(ids, weights(logits[ids], temperature), strict=True))
    return kept


def sample(
    row: np.ndarray, params: SamplingParams, history: History | Sequence[int], position: int
) -> int:
    if not isinstance(history, History):
        history = History(history)
    logits = adjust(row, params, history)
    if params.temperature <= 0.0:
        return int(np.argmax(logits))
    kept = candidates(logits, params, position)
    target = uniform53(params.seed, position) * mass_of(kept) >> 53
    for token, w in kept:
        if target < w:
            return token
        target -= w
    raise AssertionError("the target lies within the total")
