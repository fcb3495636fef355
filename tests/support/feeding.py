"""Token ids into a cache, a forward at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maglio.engine.base import Cache, Engine, Segment


def feed(engine: Engine, cache: Cache, tokens: Sequence[int], n_logits: int = 0) -> np.ndarray:
    """Append ``tokens``; return copies of the last ``n_logits`` rows."""
    tokens = list(tokens)
    while len(tokens) > engine.max_rows:
        engine.forward([Segment(cache, tokens[: engine.max_rows], 0)])
        del tokens[: engine.max_rows]
    [rows] = engine.forward([Segment(cache, tokens, n_logits)])
    return np.array(rows)
