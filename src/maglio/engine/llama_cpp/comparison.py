"""Whether an engine's rows are exact, found on some hundreds of them.

Boundary: compares rows of forwards, to the bit. Changes nothing.

What decides is how many rows are computed together, and with which others; less so how long the
context is. So many widths are tried after a few tokens, and two of them further on, one being as
wide as prompts are read. ``maglio doctor`` compares more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from maglio.engine.base import Logits, Segment
from maglio.engine.llama_cpp.cache import LlamaCppCache
from maglio.engine.llama_cpp.context import MAX_OUTPUTS
from maglio.engine.llama_cpp.engine import LlamaCppEngine

_FIRST = 8
_WIDTHS = (1, 2, 3, 4, 5, 7, 10)  # one after the other; as many rows as a forward gives
_SHIFTED = ((1, 9, 2), (6, 1, 1), (1, 3, 8), (8, 1, 5), (5, 2, 1), (11, 16, 15))
_FURTHER = 288  # tokens: more than those that caches are padded to


def is_exact(engine: LlamaCppEngine) -> bool:
    """Whether rows of wide forwards, and of several streams, are those of one token at a time."""
    return _begins_exactly(engine) and (engine.settings.rows == 1 or _goes_on_exactly(engine))


def _begins_exactly(engine: LlamaCppEngine) -> bool:
    n = min(MAX_OUTPUTS, engine.n_ctx)
    streams = [_tokens(engine, n, seed) for seed in range(len(_SHIFTED[0]))]
    first = streams[0]
    wide = _rows(engine, first, [n])
    few = _rows(engine, first[:_FIRST], [1] * _FIRST)
    if not _equal(wide[: len(few)], few):  # what differs mostly does so here
        return False
    alone = [_rows(engine, stream, [1] * n) for stream in streams]
    if not (_equal(wide, alone[0]) and _equal(_rows(engine, first, _WIDTHS), alone[0])):
        return False
    return all(map(_equal, _together(engine, streams), alone))


def _goes_on_exactly(engine: LlamaCppEngine) -> bool:
    """Whether it does not matter in which pieces a longer text is read."""
    n = min(_FURTHER, engine.max_rows, engine.n_ctx - _FIRST) // MAX_OUTPUTS * MAX_OUTPUTS
    if n <= 0:
        return True  # no longer text has room
    tokens = _tokens(engine, n + _FIRST, 0)
    at_once, in_pieces = engine.new_cache(), engine.new_cache()
    for cache, width in ((at_once, n), (in_pieces, MAX_OUTPUTS)):
        for begin in range(0, n, width):
            engine.forward([Segment(cache, tokens[begin : begin + width], 0)])
    wide = _fed(engine, at_once, tokens[n:], [_FIRST])
    return _equal(wide, _fed(engine, in_pieces, tokens[n:], [1] * _FIRST))


def _tokens(engine: LlamaCppEngine, n: int, seed: int) -> list[int]:
    return [(seed * 31 + 7 + index * 7919) % engine.n_vocab for index in range(n)]


def _rows(engine: LlamaCppEngine, tokens: Sequence[int], widths: Iterable[int]) -> Logits:
    """The rows of a stream that is fed in pieces."""
    return _fed(engine, engine.new_cache(), tokens, widths)


def _fed(
    engine: LlamaCppEngine, cache: LlamaCppCache, tokens: Sequence[int], widths: Iterable[int]
) -> Logits:
    parts, at = [], 0
    for width in widths:
        piece = tokens[at : at + width]
        at += width
        if len(piece) > 0:
            parts.append(engine.forward([Segment(cache, piece, len(piece))])[0].copy())
    return np.concatenate(parts)


def _together(engine: LlamaCppEngine, streams: Sequence[Sequence[int]]) -> list[Logits]:
    """The rows of streams that are fed in the same forwards."""
    caches = [engine.new_cache() for _ in streams]
    parts: list[list[Logits]] = [[] for _ in streams]
    for widths in _SHIFTED:
        pieces = [
            tokens[cache.length : cache.length + width]
            for cache, tokens, width in zip(caches, streams, widths, strict=True)
        ]
        fed = [number for number, piece in enumerate(pieces) if len(piece) > 0]
        if not fed:
            break
        batch = [Segment(caches[i], pieces[i], len(pieces[i])) for i in fed]
        for number, rows in zip(fed, engine.forward(batch), strict=True):
            parts[number].append(rows.copy())
    return [np.concatenate(part) for part in parts]


def _equal(one: Logits, other: Logits) -> bool:
    return one.shape == other.shape and bool((one.view(np.uint32) == other.view(np.uint32)).all())
