"""The promise of an engine, tried: each trial computes rows in another way than one at a time.

Boundary: engines by their seam, streams as token ids. Only the baseline is shared, so that what
breaks one trial does not spoil another. A conformance suite has the small print
(:mod:`maglio.engine.conformance`); here are real models, real widths and real contexts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from maglio.engine.base import Cache, Engine, Logits, Segment
from maglio.engine.trial import Comparison, Trial
from maglio.errors import MaglioError

WIDTHS = (2, 4, 8, 16, 32)
ROWS = sum(WIDTHS)
CONTEXTS = (64, 512)
BESIDE = (5, 33, 64)
"""Tokens that other streams hold."""

_FED = (1, 7, 2, 16, 1, 3, 5, 1, 9, 4, 2, 12)
"""Tokens that the first of them is fed, forward by forward; the others are fed one more each."""

Streams = Sequence[Sequence[int]]


class Neighbour(NamedTuple):
    """Another stream that shares forwards: its cache, and all its tokens."""

    cache: Cache
    stream: Sequence[int]


def most_tokens(context: int) -> int:
    """Tokens that a stream must have, and a cache have room for."""
    return max(context + ROWS, max(BESIDE) + sum(_FED) + len(_FED) * len(BESIDE))


def plain_rows(engine: Engine, stream: Sequence[int], context: int, n: int = ROWS) -> Logits:
    """The rows of plain decoding. Float32 ``(n, n_vocab)``."""
    cache = prefilled(engine, stream, context)
    return rows_alone(engine, cache, stream[context : context + n])


def rows_together(engine: Engine, stream: Sequence[int], context: int) -> Logits:
    """The same rows, several at a time."""
    cache = prefilled(engine, stream, context)
    return rows_in_pieces(engine, cache, stream[context : context + ROWS], WIDTHS)


def rows_alone(engine: Engine, cache: Cache, tokens: Sequence[int]) -> Logits:
    """Append tokens one at a time; their rows."""
    return np.concatenate([_feed(engine, cache, [token]) for token in tokens])


def rows_in_pieces(
    engine: Engine, cache: Cache, tokens: Sequence[int], widths: Sequence[int]
) -> Logits:
    """Append tokens, so many at a time; their rows."""
    at = 0
    parts = []
    for width in widths:
        for n in _pieces(width, engine.max_rows):
            parts.append(_feed(engine, cache, tokens[at : at + n]))
            at += n
    return np.concatenate(parts)


def rows_beside(
    engine: Engine,
    cache: Cache,
    tokens: Sequence[int],
    others: Sequence[Neighbour],
    fed: Sequence[int],
) -> Logits:
    """Append a token for each of ``fed``, in forwards with pieces of other streams; their rows.

    The first of the others is fed so many tokens, the next ones one more each.
    """
    parts = []
    for step, width in enumerate(fed):
        batch = [Segment(cache, tokens[step : step + 1], 1)]
        for more, (theirs, stream) in enumerate(others):
            piece = stream[theirs.length : theirs.length + width + more]
            batch.append(Segment(theirs, piece, len(piece)))
        # In the middle of a batch as well as at its ends.
        place = step % len(batch)
        batch.insert(place, batch.pop(0))
        parts.append(engine.forward(batch)[place].copy())
    return np.concatenate(parts)


def trials(engine: Engine, streams: Streams, context: int) -> Iterator[Trial]:
    """Try all that changes how a row is computed, at one length of context.

    Args:
        engine: is tried.
        streams: token ids of :func:`most_tokens` each, one and those beside it.
        context: tokens in the cache before the first row.
    """
    expected = plain_rows(engine, streams[0], context)
    for name, trial in _TRIALS.items():
        yield attempt(name, context, lambda: trial(engine, streams, context, expected))  # noqa: B023


def attempt(name: str, context: int, trial: Callable[[], Comparison]) -> Trial:
    """Run a trial; what an engine raises is its result."""
    try:
        return trial().trial(name, context)
    except Exception as error:  # an engine of another package may raise anything
        reason = str(error) if isinstance(error, MaglioError) else repr(error)
        return Trial(name, context, error=reason)


def prefilled(engine: Engine, stream: Sequence[int], context: int) -> Cache:
    """A new cache that holds the beginning of a stream."""
    cache = engine.new_cache()
    for begin in range(0, context, engine.max_rows):
        end = min(begin + engine.max_rows, context)
        engine.forward([Segment(cache, stream[begin:end], 1)])
    return cache


def compared(rows: Logits, expected: Logits) -> Comparison:
    """How rows differ from as many others."""
    found = Comparison()
    found.add(rows, expected)
    return found


def _together(engine: Engine, streams: Streams, context: int, expected: Logits) -> Comparison:
    return compared(rows_together(engine, streams[0], context), expected)


def _beside(engine: Engine, streams: Streams, context: int, expected: Logits) -> Comparison:
    """One row of our stream in forwards with pieces of others."""
    own = prefilled(engine, streams[0], context)
    held = BESIDE[: max(1, min(len(streams) - 1, (engine.max_rows - 1) // (max(_FED) + 3)))]
    others = [
        Neighbour(prefilled(engine, stream, n), stream)
        for stream, n in zip(streams[1:], held, strict=False)
    ]
    tokens = streams[0][context : context + len(_FED)]
    return compared(rows_beside(engine, own, tokens, others, _FED), expected[: len(_FED)])


def _truncated(engine: Engine, streams: Streams, context: int, expected: Logits) -> Comparison:
    """Wrong tokens are appended and cut off again, as those of a draft are."""
    found = Comparison()
    stream = streams[0]
    cache = prefilled(engine, stream, context)
    at = 0
    for right, wrong in ((0, 1), (1, 3), (2, 7), (5, 2)):
        tokens = stream[context + at : context + at + right]
        _feed(engine, cache, [*tokens, *_wrong(engine, stream, context + at + right, wrong)])
        kept = cache.truncate(context + at + right)
        _catch_up(engine, cache, stream, kept, context + at + right)
        at += right
        rows = _feed(engine, cache, stream[context + at : context + at + 2])
        found.add(rows, expected[at : at + 2])
        at += 2
    return found


def _forked(engine: Engine, streams: Streams, context: int, expected: Logits) -> Comparison:
    """A fork and what it was forked from go different ways, by turns."""
    found = Comparison()
    stream = streams[0]
    cache = prefilled(engine, stream, context)
    fork = cache.fork(cache.length)
    other = _wrong(engine, stream, context, 8)
    for step in range(8):
        _feed(engine, cache, other[step : step + 1])
        rows = _feed(engine, fork, stream[context + step : context + step + 1])
        found.add(rows, expected[step : step + 1])
    return found


_TRIALS: dict[str, Callable[[Engine, Streams, int, Logits], Comparison]] = {
    f"{WIDTHS[0]} to {WIDTHS[-1]} rows at a time": _together,
    "beside other streams": _beside,
    "after a cut": _truncated,
    "in a fork": _forked,
}


def _catch_up(engine: Engine, cache: Cache, stream: Sequence[int], kept: int, length: int) -> None:
    """Feed again what a cache with a floor has dropped besides."""
    for begin in range(kept, length, engine.max_rows):
        end = min(begin + engine.max_rows, length)
        engine.forward([Segment(cache, stream[begin:end], 1)])


def _wrong(engine: Engine, stream: Sequence[int], at: int, n: int) -> list[int]:
    """Tokens that are not those of the stream."""
    return [(token + 1) % engine.n_vocab for token in stream[at : at + n]]


def _pieces(width: int, most: int) -> Iterator[int]:
    while width > 0:
        yield min(width, most)
        width -= most


def _feed(engine: Engine, cache: Cache, tokens: Sequence[int]) -> Logits:
    [rows] = engine.forward([Segment(cache, tokens, len(tokens))])
    return rows.copy()
