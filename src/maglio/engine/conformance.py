"""What an engine must keep, as checks that run on any engine.

Each claim is a function that takes an engine and raises :class:`ConformanceError` when the claim
does not hold. The tests run them on every engine of the project; whoever writes an adapter runs
them with :func:`check`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from maglio.engine.base import Cache, Engine, Logits, Segment
from maglio.errors import ContextFullError, InvalidArgumentError, MaglioError

if TYPE_CHECKING:
    from _typeshed import TraceFunction


MAX_LINES = 5000
"""Lines of an adapter's forward at which it is interrupted."""


class ConformanceError(MaglioError):
    """An engine does not keep what :mod:`maglio.engine.base` asks of it."""


def check(engine: Engine) -> Iterator[tuple[str, str | None]]:
    """Run every claim; yield its name and what is wrong, ``None`` if it holds.

    Takes some hundred forwards of a few tokens. The context must have room for 40 of them,
    and a forward for 24.
    """
    for name, claim in CLAIMS.items():
        yield name, _problem(claim, engine)


def _problem(claim: Callable[[Engine], None], engine: Engine) -> str | None:
    try:
        claim(engine)
    except ConformanceError as error:
        return str(error)
    except Exception as error:
        return f"raised {error!r}"
    return None


def rows_have_their_shape(engine: Engine) -> None:
    """A forward appends its tokens and returns float32 rows of those that were asked for."""
    cache = engine.new_cache()
    _require(cache.length == 0, "a new cache is not empty")
    length = 0
    for n, n_logits in ((3, 0), (1, 1), (5, 2), (4, 4)):
        [rows] = engine.forward([Segment(cache, _tokens(engine, n, length), n_logits)])
        length += n
        _require(
            cache.length == length, f"{length} positions were fed, and {cache.length} are held"
        )
        shape = (n_logits, engine.n_vocab)
        _require(rows.shape == shape, f"the rows have the shape {rows.shape}, not {shape}")
        _require(rows.dtype == np.float32, f"the rows are {rows.dtype}, not float32")
        _require(bool(np.isfinite(rows).all()), "a row is not finite")


def rows_depend_on_their_prefix(engine: Engine) -> None:
    """However a stream is cut into forwards, its rows are those of one token at a time."""
    tokens = _tokens(engine, 24)
    expected = _one_at_a_time(engine, tokens)
    for cuts in ((24,), (1, 23), (7, 9, 8), (16, 1, 1, 6)):
        cache = engine.new_cache()
        at = 0
        for n in cuts:
            _same_rows(engine, _feed(engine, cache, tokens[at : at + n]), expected[at : at + n])
            at += n


def a_batch_is_its_segments(engine: Engine) -> None:
    """The rows of a segment do not depend on the other segments of its forward."""
    streams = [_tokens(engine, 12, seed) for seed in range(3)]
    expected = [_one_at_a_time(engine, stream) for stream in streams]
    caches = [engine.new_cache() for _ in streams]
    at = [0, 0, 0]
    for widths in ((1, 5, 2), (6, 1, 1), (1, 1, 8), (2, 3, 1)):
        batch = [
            Segment(cache, stream[start : start + n], n)
            for cache, stream, start, n in zip(caches, streams, at, widths, strict=True)
        ]
        for number, rows in enumerate(engine.forward(batch)):
            begin, n = at[number], widths[number]
            _same_rows(engine, rows, expected[number][begin : begin + n])
            at[number] += n


def a_truncated_cache_is_a_fresh_one(engine: Engine) -> None:
    """What was dropped leaves no trace: the stream goes on as if it had never been there."""
    tokens, wrong = _tokens(engine, 16), _tokens(engine, 16, seed=5)
    expected = _one_at_a_time(engine, tokens)
    for length in (0, 1, 7, 8):
        cache = engine.new_cache()
        _feed(engine, cache, [*tokens[:length], *wrong[length:14]])
        floor = cache.floor
        kept = cache.truncate(length)
        _require(kept == cache.length, f"truncate said {kept}, and {cache.length} are held")
        _require(kept <= length, f"truncate({length}) kept {kept} positions")
        _require(kept == length or length < floor or not engine.can_rewind, "too few are kept")
        _same_rows(engine, _feed(engine, cache, tokens[kept:]), expected[kept:])


def the_last_forward_can_be_taken_back(engine: Engine) -> None:
    """``can_rewind``: any number of tokens of the last forward can be dropped."""
    if not engine.can_rewind:
        return
    tokens, wrong = _tokens(engine, 12), _tokens(engine, 12, seed=5)
    expected = _one_at_a_time(engine, tokens)
    for right in range(8):
        cache = engine.new_cache()
        _feed(engine, cache, tokens[:4])
        _feed(engine, cache, [*tokens[4 : 4 + right], *wrong[4 + right : 12]])
        kept = cache.truncate(4 + right)
        _require(kept == 4 + right, f"truncate({4 + right}) kept {kept} positions")
        _same_rows(engine, _feed(engine, cache, tokens[kept:]), expected[kept:])


def any_length_can_be_gone_back_to(engine: Engine) -> None:
    """After a prompt and what was generated, in a fork too, a cut leaves a sound cache."""
    tokens = _tokens(engine, 24)
    expected = _one_at_a_time(engine, tokens)
    for length in (0, 3, 7, 8, 9, 17, 23):
        cache = engine.new_cache()
        for begin, end in ((0, 8), (8, 16)):  # prompts, of which the last row is wanted
            engine.forward([Segment(cache, tokens[begin:end], 1)])
            cache.keep()
            _require(cache.length == end, f"keep() left {cache.length} of {end} positions")
        for token in tokens[16:]:
            engine.forward([Segment(cache, [token], 1)])
        for one in (cache.fork(cache.length), cache):
            kept = one.truncate(length)
            _require(kept == one.length <= length, f"truncate({length}) kept {kept} positions")
            _same_rows(engine, _feed(engine, one, tokens[kept:]), expected[kept:])


def a_fork_is_independent(engine: Engine) -> None:
    """A cache and its fork go on without each other."""
    tokens, other = _tokens(engine, 16), _tokens(engine, 16, seed=5)
    for length in (1, 8):
        cache = engine.new_cache()
        _feed(engine, cache, tokens[:8])
        if length < cache.floor:
            continue
        fork = cache.fork(length)
        _require(fork.length == length, f"a fork of {length} positions holds {fork.length}")
        branch = [*tokens[:length], *other[length:]]
        for at in range(8, 16):
            rows = _feed(engine, cache, tokens[at : at + 1])
            _same_rows(engine, rows, _one_at_a_time(engine, tokens[: at + 1])[-1:])
            n = fork.length
            rows = _feed(engine, fork, branch[n : n + 1])
            _same_rows(engine, rows, _one_at_a_time(engine, branch[: n + 1])[-1:])


def what_cannot_be_done_changes_nothing(engine: Engine) -> None:
    """Bad input ends in one of the seam's errors, before anything is changed."""
    cache, other = engine.new_cache(), engine.new_cache()
    good = _tokens(engine, 3)
    _feed(engine, cache, good)
    long = [good[0]] * (engine.max_rows + 1)
    full = [good[0]] * (engine.n_ctx - cache.length + 1)
    for name, batch in {
        "no segments": [],
        "no tokens": [Segment(cache, [], 0)],
        "an id below the vocabulary": [Segment(other, good, 1), Segment(cache, [-1], 1)],
        "an id above the vocabulary": [
            Segment(other, good, 1),
            Segment(cache, [engine.n_vocab], 1),
        ],
        "more rows than tokens": [Segment(cache, good, 4)],
        "a negative number of rows": [Segment(cache, good, -1)],
        "one cache twice": [Segment(cache, good, 1), Segment(cache, good, 1)],
        "too many rows": [Segment(cache, long, 1)],
        "more than the context": [Segment(cache, full, 0)],
    }.items():
        try:
            engine.forward(batch)
        except (InvalidArgumentError, ContextFullError):
            pass
        except Exception as error:
            raise ConformanceError(
                f"{name}: raised {error!r}, which is not one of Maglio's errors"
            ) from error
        else:
            raise ConformanceError(f"{name}: was taken")
        _require((cache.length, other.length) == (3, 0), f"{name}: changed a cache")
    for length in (-1, 4):
        try:
            cache.truncate(length)
        except InvalidArgumentError:
            continue
        raise ConformanceError(f"truncate({length}) of 3 positions was taken")


def an_interrupt_leaves_a_usable_cache(engine: Engine) -> None:
    """After Ctrl-C at any line of the adapter each cache of a forward has all of it or nothing.

    It goes on as if nothing had been.
    """
    try:
        source = inspect.getsourcefile(type(engine))
    except TypeError:  # it is not written in Python
        return
    streams = [_tokens(engine, 6), _tokens(engine, 6, seed=1)]
    expected = [_one_at_a_time(engine, tokens) for tokens in streams]
    for n_segments in (1, 2):
        line, interrupted = 0, True
        while interrupted and line < MAX_LINES:
            line += 1
            caches = [engine.new_cache() for _ in range(n_segments)]
            batch = []
            for cache, tokens in zip(caches, streams, strict=False):
                _feed(engine, cache, tokens[:2])
                batch.append(Segment(cache, tokens[2:], 4))
            interrupted = _interrupted(source, line, partial(engine.forward, batch))
            for cache, tokens, rows in zip(caches, streams, expected, strict=False):
                held = cache.length
                _require(held in (2, 6), f"{held} positions are held after an interrupt")
                kept = cache.truncate(min(2, held))
                _same_rows(engine, _feed(engine, cache, tokens[kept:]), rows[kept:])


CLAIMS: dict[str, Callable[[Engine], None]] = {
    claim.__name__: claim
    for claim in (
        rows_have_their_shape,
        rows_depend_on_their_prefix,
        a_batch_is_its_segments,
        a_truncated_cache_is_a_fresh_one,
        the_last_forward_can_be_taken_back,
        any_length_can_be_gone_back_to,
        a_fork_is_independent,
        what_cannot_be_done_changes_nothing,
        an_interrupt_leaves_a_usable_cache,
    )
}
"""All claims by name."""


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise ConformanceError(problem)


def _tokens(engine: Engine, n: int, seed: int = 0) -> list[int]:
    """``n`` token ids spread over the vocabulary."""
    return [(seed * 31 + 7 + index * 7919) % engine.n_vocab for index in range(n)]


def _feed(engine: Engine, cache: Cache, tokens: Sequence[int]) -> Logits:
    [rows] = engine.forward([Segment(cache, tokens, len(tokens))])
    return rows.copy()


def _one_at_a_time(engine: Engine, tokens: Sequence[int]) -> Logits:
    cache = engine.new_cache()
    return np.concatenate([_feed(engine, cache, [token]) for token in tokens])


def _same_rows(engine: Engine, rows: Logits, expected: Logits) -> None:
    """To the bit where the engine says so; elsewhere it promises no more than a shape."""
    _require(rows.shape == expected.shape, f"{rows.shape} rows came, not {expected.shape}")
    if engine.exactness != "bitwise":
        return
    differ = (rows.view(np.uint32) != expected.view(np.uint32)).any(axis=1)
    _require(
        not differ.any(),
        f"{int(differ.sum())} of {len(rows)} rows are not those of one token at a time",
    )


def _interrupted(source: str | None, line: int, action: Callable[[], object]) -> bool:
    """Run ``action`` with an interrupt at the ``line``-th line of ``source``; whether it came."""
    left = line

    def trace(frame: FrameType, event: str, _: Any) -> TraceFunction | None:  # noqa: ANN401
        nonlocal left
        if frame.f_code.co_filename != source:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False
