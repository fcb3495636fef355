"""Token streams without a model: ids as often as words are, with passages copied from before.

Boundary: token ids.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]

N_VOCAB = 150_000
_PASSAGE = (5, 65)
_BEGINNING = 200  # tokens before the first passage may be copied


def make_stream(n: int, seed: int = 0) -> Ids:
    """A stream of ``n`` tokens: fresh runs of Zipf ids alternate with copied passages.

    Half of it is copied from earlier in the stream, as conversations do.
    """
    rng = np.random.default_rng(seed)
    weights = 1.0 / (np.arange(N_VOCAB) + 2.7)
    fresh = rng.choice(N_VOCAB, size=n, p=weights / weights.sum()).astype(np.int32)
    out = np.empty(n, dtype=np.int32)
    at = 0
    while at < n:
        length = min(int(rng.integers(*_PASSAGE)), n - at)
        if at > _BEGINNING and rng.random() < 0.5:
            start = int(rng.integers(at - length))
            out[at : at + length] = out[start : start + length]
        else:
            out[at : at + length] = fresh[at : at + length]
        at += length
    return out


def make_quoting(document: Ids, n: int, seed: int = 1) -> Ids:
    """A stream of ``n`` tokens, half of which are passages of a document."""
    rng = np.random.default_rng(seed)
    out = make_stream(n, seed)
    at = 0
    while at < n:
        length = min(int(rng.integers(*_PASSAGE)), n - at, len(document))
        if rng.random() < 0.5:
            start = int(rng.integers(len(document) - length + 1))
            out[at : at + length] = document[start : start + length]
        at += length
    return out
