"""Whether an engine's rows are exact, found on a few of them.

Boundary: compares rows of forwards, to the bit. Changes nothing.

What decides is how many rows are computed together, and with which others. The context is short:
kernels are chosen by the number of rows, and those that are chosen by the length of a context too
are in no exact settings. ``maglio doctor`` compares more rows, and longer contexts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from maglio.engine.base import Logits, Segment
from maglio.engine.llama_cpp.context import MAX_OUTPUTS
from maglio.engine.llama_cpp.engine import LlamaCppEngine

_FIRST = 8
_WIDTHS = (1, 2, 3, 4, 5, 7, 10)  # one after the other; as many rows as a forward gives
_SHIFTED = ((1, 9, 2), (6, 1, 1), (1, 3, 8), (8, 1, 5), (5, 2, 1), (11, 16, 15))


def is_exact(engine: LlamaCppEngine) -> bool:
    """Whether rows of wide forwards, and of several streams, are those of one token at a time."""
    n = min(MAX_OUTPUTS, engine.n_ctx)
    n_streams = min(len(_SHIFTED[0]), engine.context.n_sequences)
    streams = [_tokens(engine, n, seed) for seed in range(n_streams)]
    wide = _rows(engine, streams[0], [n])
    few = _rows(engine, streams[0][:_FIRST], [1] * _FIRST)
    if not _equal(wide[: len(few)], few):  # what differs mostly does so here
        return False
    alone = [_rows(engine, stream, [1] * n) for stream in streams]
    if not (_equal(wide, alone[0]) and _equal(_rows(engine, streams[0], _WIDTHS), alone[0])):
        return False
    return all(map(_equal, _together(engine, streams), alone))


def _tokens(engine: LlamaCppEngine, n: int, seed: int) -> list[int]:
    return [(seed * 31 + 7 + index * 7919) % engine.n_vocab for index in range(n)]


def _rows(engine: LlamaCppEngine, tokens: Sequence[int], widths: Iterable[int]) -> Logits:
    """The rows of a stream that is fed in pieces."""
    cache = engine.new_cache()
    parts = []
    for width in widths:
        piece = tokens[cache.length : cache.length + width]
        if len(piece) > 0:
            parts.append(engine.forward([Segment(cache, piece, len(piece))])[0].copy())
    return np.concatenate(parts)


def _together(engine: LlamaCppEngine, streams: Sequence[Sequence[int]]) -> list[Logits]:
    """The rows of streams that are fed in the same forwards."""
    caches = [engine.new_cache() for _ in streams]
    parts: list[list[Logits]] = [[] for _ in streams]
    for widths in _SHIFTED:
        batch = []
        for cache, tokens, width in zip(caches, streams, widths, strict=False):
            piece = tokens[cache.length : cache.length + width]
            if len(piece) > 0:
                batch.append((cache, piece))
        if not batch:
            break
        rows = engine.forward([Segment(cache, piece, len(piece)) for cache, piece in batch])
        for (cache, _), part in zip(batch, rows, strict=True):
            parts[caches.index(cache)].append(part.copy())
    return [np.concatenate(part) for part in parts]


def _equal(one: Logits, other: Logits) -> bool:
    return one.shape == other.shape and bool((one.view(np.uint32) == other.view(np.uint32)).all())
