"""Caches of the native engine: memory, forks, and what a batch may not ask for."""

from __future__ import annotations

import contextlib
import gc
import threading
from array import array
from pathlib import Path

import numpy as np
import pytest

from maglio import machine
from maglio.engine.base import Segment
from maglio.engine.native import NativeEngine
from maglio.engine.session import Session
from maglio.errors import ContextFullError, InvalidArgumentError, OutOfMemoryError
from maglio.gguf import ModelFile
from support.tiny import TinyModels, random_tokens


@pytest.fixture
def path(tiny: TinyModels) -> Path:
    return tiny.path("qwen3", "Q8_0", None)


@pytest.fixture
def engine(path: Path) -> NativeEngine:
    return NativeEngine(ModelFile(path), n_ctx=200, threads=2)


def feed(engine: NativeEngine, cache: object, n: int) -> None:
    for begin in range(0, n, engine.max_rows):
        engine.forward([Segment(cache, [1] * min(engine.max_rows, n - begin), 0)])  # type: ignore[arg-type]


# --- memory ---------------------------------------------------------------------------------------


def test_memory_follows_what_is_used(engine: NativeEngine) -> None:
    page = engine.page_bytes
    assert page == 2 * 2 * 64 * 64 * 2  # layers, keys and values, positions, head, half
    cache = engine.new_cache()
    assert engine.cache_bytes == 0
    feed(engine, cache, 1)
    assert engine.cache_bytes == page
    feed(engine, cache, 129)
    assert engine.cache_bytes == 3 * page
    fork = cache.fork(130)
    assert engine.cache_bytes == 3 * page, "a fork shares"
    feed(engine, fork, 1)
    assert engine.cache_bytes == 4 * page, "the last page was copied"
    cache.truncate(10)
    assert engine.cache_bytes == 3 * page, "the fork still uses the second page"
    del fork
    gc.collect()
    assert engine.cache_bytes == page
    cache.truncate(0)
    assert engine.cache_bytes == 0


def test_a_cache_in_8_bits_takes_little_more_than_half(path: Path, engine: NativeEngine) -> None:
    coded = NativeEngine(ModelFile(path), threads=1, kv_cache="q8_0")
    assert (engine.kv_cache, coded.kv_cache) == ("f16", "q8_0")
    # Heads of 64 values: a byte each, and a half-precision scale per 32.
    assert coded.page_bytes / engine.page_bytes == (64 + 2 * 2) / (64 * 2)
    cache = coded.new_cache()
    feed(coded, cache, 65)
    assert coded.cache_bytes == 2 * coded.page_bytes


def with_budget(path: Path, monkeypatch: pytest.MonkeyPatch, pages: float) -> NativeEngine:
    page = NativeEngine(ModelFile(path), threads=1).page_bytes
    answers = iter([1 << 40, int(pages * page)])  # before and after loading
    monkeypatch.setattr(machine, "available_memory", lambda: next(answers))
    return NativeEngine(ModelFile(path), n_ctx=200, threads=1)


def test_pages_beyond_memory_are_refused_and_closing_a_sequence_makes_room(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = with_budget(path, monkeypatch, 2.5)
    first, second = Session(engine), Session(engine)
    third = Session(engine)  # costs nothing yet
    first.forward([1] * 60)
    second.forward([1] * 60)
    with pytest.raises(OutOfMemoryError, match=r"0\.\d MB .*in use.* available; close"):
        third.forward([1])
    assert third.length == 0
    before = [session.length for session in (first, second)]
    with pytest.raises(OutOfMemoryError):
        engine.forward([Segment(first._cache, [1], 1), Segment(second._cache, [1] * 5, 1)])
    assert [session.length for session in (first, second)] == before
    del first
    gc.collect()
    assert third.forward([1]).shape == (1, engine.n_vocab)


@pytest.mark.parametrize(("kv_cache", "advises"), [("f16", True), ("q8_0", False)])
def test_a_lack_of_pages_advises_the_smaller_cache_where_it_is_not_in_use(
    path: Path, monkeypatch: pytest.MonkeyPatch, kv_cache: str, advises: bool
) -> None:
    answers = iter([1 << 40, 1])
    monkeypatch.setattr(machine, "available_memory", lambda: next(answers))
    engine = NativeEngine(ModelFile(path), threads=1, kv_cache=kv_cache)
    with pytest.raises(OutOfMemoryError, match="or use a smaller model") as refusal:
        Session(engine).forward([1])
    assert ('load the model with kv_cache="q8_0"' in str(refusal.value)) == advises


def test_without_an_answer_from_the_system_there_is_no_limit(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "available_memory", lambda: None)
    engine = NativeEngine(ModelFile(path), threads=1)
    feed(engine, engine.new_cache(), 200)


# --- what a batch may not ask for -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "says"),
    [
        ([], "empty"),
        ([1, 300], r"tokens\[1\] is 300, must be an integer from 0 to 299"),
        ([-1], r"tokens\[0\] is -1"),
        ([2**70], r"tokens\[0\] is 1180591620717411303424"),
        ([1.5], r"tokens\[0\] is 1\.5"),
        ([True], r"tokens\[0\] is True"),
        ([None], r"tokens\[0\] is None"),
        ("ab", r"tokens\[0\] is 'a'"),
        ("\udcff", r"tokens\[0\] is '\\udcff'"),
        (5, "tokens is 5, must be a sequence"),
        (np.array([1, 300], np.int32), r"tokens\[1\] is 300"),
        (np.array([1, 300]), r"tokens\[1\] is .*300"),
        (np.array([[1, 2]], np.int32), r"tokens\[0\]"),
        (np.array([1.0]), r"tokens\[0\]"),
        ([1] * 129, "129 token ids; a forward takes at most 128"),
        (np.ones(129, np.int32), "129 token ids; a forward takes at most 128"),
    ],
)
def test_tokens_that_cannot_be_are_refused(engine: NativeEngine, tokens: object, says: str) -> None:
    cache, other = engine.new_cache(), engine.new_cache()
    with pytest.raises(InvalidArgumentError, match=says):
        engine.forward([Segment(other, [1], 1), Segment(cache, tokens, 0)])  # type: ignore[arg-type]
    assert cache.length == other.length == 0


@pytest.mark.parametrize(
    "tokens",
    [
        (7, 8),
        [np.int64(7), np.uint8(8)],
        np.array([7, 8]),
        np.array([7, 8], np.int32),
        np.array([7, 0, 8], np.int32)[::2],
        array("i", [7, 8]),
        array("q", [7, 8]),
        range(7, 9),
    ],
)
def test_tokens_come_in_any_sequence(engine: NativeEngine, tokens: object) -> None:
    [expected] = engine.forward([Segment(engine.new_cache(), [7, 8], 2)])
    expected = expected.copy()
    [rows] = engine.forward([Segment(engine.new_cache(), tokens, 2)])  # type: ignore[arg-type]
    np.testing.assert_array_equal(rows, expected)


@pytest.mark.parametrize("n_logits", [-1, 3, 2**40, 1.5, None])
def test_rows_that_cannot_be_are_refused(engine: NativeEngine, n_logits: object) -> None:
    cache = engine.new_cache()
    with pytest.raises(InvalidArgumentError, match=r"n_logits is .* from 0 to 2"):
        engine.forward([Segment(cache, [1, 2], n_logits)])  # type: ignore[arg-type]
    assert cache.length == 0


def test_batches_that_cannot_be_are_refused(engine: NativeEngine, path: Path) -> None:
    cache, other = engine.new_cache(), engine.new_cache()
    foreign = NativeEngine(ModelFile(path), threads=1).new_cache()
    for batch, says in [
        ([], "empty"),
        ([5], "a segment is 5"),
        ([(cache, [1])], "a tuple of cache, tokens and n_logits"),
        ([(None, [1], 1)], "cache is None"),
        ([Segment(cache, [1], 1), (other, [1])], "segment 1: a segment is "),
        ([Segment(cache, [1], 1), Segment(other, [1, -5], 1)], r"segment 1: tokens\[1\] is -5"),
        ([Segment(cache, [1], 1), Segment(other, ["a"], 1)], r"segment 1: tokens\[0\] is 'a'"),
        ([Segment(cache, [1], 2), Segment(other, [1], 1)], "segment 0: n_logits is 2"),
        ([Segment(cache, [1], 1), Segment(cache, [2], 1)], "also that of segment 0"),
        ([Segment(cache, [1], 1), Segment(foreign, [2], 1)], "segment 1: the cache is another"),
        ([Segment(cache, [1] * 100, 1), Segment(other, [1] * 29, 1)], "at most 128"),
    ]:
        with pytest.raises(InvalidArgumentError, match=says):
            engine.forward(batch)  # type: ignore[arg-type]
    assert cache.length == other.length == foreign.length == 0


def test_a_full_context_says_how_full(engine: NativeEngine) -> None:
    cache, other = engine.new_cache(), engine.new_cache()
    feed(engine, cache, 199)
    with pytest.raises(
        ContextFullError, match=r"segment 1: 2 tokens do not fit: 199 of .* 200 .*; shorten"
    ):
        engine.forward([Segment(other, [1], 1), Segment(cache, [1, 2], 1)])
    with pytest.raises(ContextFullError, match=r"^2 tokens do not fit"):
        engine.forward([Segment(cache, [1, 2], 1)])
    assert (other.length, cache.length) == (0, 199)
    assert engine.forward([Segment(cache, [1], 1)])[0].shape == (1, engine.n_vocab)


def test_lengths_that_cannot_be_are_refused(engine: NativeEngine) -> None:
    cache = engine.new_cache()
    feed(engine, cache, 10)
    for length in (-1, 11):
        for change in (cache.truncate, cache.fork):
            with pytest.raises(InvalidArgumentError, match=rf"length is {length}.* from 0 to 10"):
                change(length)
    assert cache.length == 10
    assert cache.truncate(10) == 10
    assert cache.fork(0).length == 0


def test_rows_of_a_batch_are_views_of_one_loan(engine: NativeEngine) -> None:
    caches = [engine.new_cache() for _ in range(3)]
    wanted = (0, 2, 1)
    rows = engine.forward([Segment(c, [1, 2], n) for c, n in zip(caches, wanted, strict=True)])
    assert [part.shape for part in rows] == [(n, engine.n_vocab) for n in wanted]
    assert all(part.dtype == np.float32 and part.flags.writeable for part in rows)
    kept = rows[2].copy()
    last = rows.pop()
    del rows
    gc.collect()
    engine.forward([Segment(caches[0], [5], 1)])  # must not take the memory that is still in use
    np.testing.assert_array_equal(last, kept)


# --- threads --------------------------------------------------------------------------------------


def test_threads_at_the_end_of_one_cache_get_room_or_a_typed_error(engine: NativeEngine) -> None:
    cache = engine.new_cache()
    tokens = random_tokens(engine.n_vocab, 200)
    feed(engine, cache, 190)
    problems: list[BaseException] = []

    # Another thread may shorten the cache between a question and what follows from the answer.
    shortened = contextlib.suppress(InvalidArgumentError)

    def hammer(n: int) -> None:
        try:
            for i in range(150):
                try:
                    engine.forward([Segment(cache, tokens[:n], n)])
                except ContextFullError:
                    with shortened:
                        cache.truncate(min(cache.length, 190))
                if i % 10 == 0:
                    with shortened:
                        cache.fork(cache.length // 2).truncate(0)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=hammer, args=(n,)) for n in (1, 2, 5, 11)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert cache.length <= 200
    cache.truncate(0)
    [rows] = engine.forward([Segment(cache, tokens[:100], 1)])
    rows = rows.copy()
    [alone] = engine.forward([Segment(engine.new_cache(), tokens[:100], 1)])
    np.testing.assert_array_equal(rows, alone)


def test_sequences_in_threads_of_their_own(tiny: TinyModels) -> None:
    engine = tiny.engine("gemma3", "Q4_0", threads=2)
    tokens = random_tokens(engine.n_vocab, 90)
    expected = Session(engine).forward(tokens).copy()
    wrong: list[int] = []

    def run(width: int) -> None:
        session = Session(engine)
        for _ in range(3):
            for at in range(0, len(tokens), width):
                rows = session.forward(tokens[at : at + width])
                if not np.array_equal(rows, expected[at : at + width]):
                    wrong.append(width)
            session = session.fork(40)
            session.truncate(0)

    threads = [threading.Thread(target=run, args=(width,)) for width in (1, 2, 7, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
