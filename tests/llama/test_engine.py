"""llama.cpp keeps what is asked of an engine, at the exactness that it claims."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from maglio.engine.base import Segment
from maglio.engine.conformance import CLAIMS, an_interrupt_leaves_a_usable_cache
from maglio.engine.llama_cpp import context as contexts
from maglio.engine.llama_cpp.context import MAX_OUTPUTS
from maglio.engine.session import Session
from maglio.errors import (
    EngineError,
    InvalidArgumentError,
    ModelFileError,
    OutOfMemoryError,
)
from maglio.llama_cpp_model import open_llama_cpp

FAMILIES = ("llama", "gemma3", "gemma4", "qwen3moe", "gpt-oss", "qwen35", "lfm2")
"""Plain attention, sliding windows, shared keys, experts, sinks, and recurrent layers."""
RECURRENT = ("qwen35", "lfm2")
NARROW = ("gemma4", "gpt-oss")
"""Heads of 16 values, where 8-bit caches have blocks of 32."""
TOKENS = [(7 + index * 79) % 300 for index in range(80)]
# At every line of the adapter, so once for each kind of cache.
QUICK = [claim for claim in CLAIMS.values() if claim is not an_interrupt_leaves_a_usable_cache]


def close(rows, expected) -> bool:
    return bool(np.abs(rows - expected).max() < 2e-2 * np.abs(expected).max())


def same(rows, expected) -> bool:
    return bool((rows.view(np.uint32) == expected.view(np.uint32)).all())


@pytest.mark.parametrize("family", FAMILIES)
def test_the_claims_of_every_engine_hold(opened, family):
    engine = opened(family)
    assert engine.exactness == "distribution"
    assert engine.can_rewind == (family not in RECURRENT)
    for claim in QUICK:
        claim(engine)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kv_cache", ["f16", "q8_0"])
def test_the_claims_hold_to_the_bit_where_exact_settings_are_asked_for(opened, family, kv_cache):
    if kv_cache == "q8_0" and family in NARROW:
        with pytest.raises(ModelFileError, match="block size 32 does not divide"):
            opened(family, exact="require", kv_cache=kv_cache)
        return
    engine = opened(family, exact="require", kv_cache=kv_cache)
    assert engine.exactness == "bitwise"
    assert not engine.settings.shared_cells
    for claim in QUICK:
        claim(engine)


@pytest.mark.parametrize("family", ["gemma3", "qwen35"])
@pytest.mark.parametrize("exact", ["accept", "require"])
def test_an_interrupt_at_any_line_leaves_a_usable_cache(opened, family, exact):
    an_interrupt_leaves_a_usable_cache(opened(family, exact=exact))


@pytest.mark.parametrize("fmt", ["F16", "Q4_0", "Q4_K", "Q5_0", "Q6_K"])
def test_exact_settings_are_found_for_every_format(opened, fmt):
    engine = opened("llama", fmt, exact="require")
    assert engine.exactness == "bitwise"
    for claim in QUICK:
        claim(engine)


def test_rows_are_those_of_the_native_engine_but_for_rounding(opened, models):
    for family in FAMILIES:
        expected = Session(models.engine(family, "F32")).forward(TOKENS)
        assert close(Session(opened(family, "F32")).forward(TOKENS), expected), family


def test_a_sliding_window_can_be_gone_back_behind(opened):
    """Windows of 32: a cache of that size would have lost what the first ones need."""
    engine = opened("gemma3")
    expected = Session(engine).forward(TOKENS)
    session = Session(engine)
    session.forward(TOKENS)
    for length in (60, 33, 5):
        assert session.truncate(length) == length
        assert close(session.forward(TOKENS[length:]), expected[length:])


def test_forks_take_no_sequence_until_they_grow(opened):
    engine = opened("llama")
    cache = engine.new_cache()
    engine.forward([Segment(cache, TOKENS[:20], 0)])
    forks = [cache.fork(length) for length in range(20) for _ in range(5)]
    expected = Session(engine).forward(TOKENS[:30])
    for fork in forks[:: len(forks) // 7]:
        [rows] = engine.forward([Segment(fork, TOKENS[fork.length : 30], 1)])
        assert close(rows, expected[-1:])
    [rows] = engine.forward([Segment(cache, TOKENS[20:30], 10)])
    assert close(rows, expected[20:])


@pytest.mark.parametrize("exact", ["accept", "require"])
def test_forks_that_grow_in_one_forward_do_not_see_each_other(opened, exact):
    engine = opened("llama", exact=exact)
    cache = engine.new_cache()
    engine.forward([Segment(cache, TOKENS[:10], 0)])
    forks = [cache, cache.fork(10), cache.fork(4)]
    pieces = [[1, 2, 3], [4, 5], [6, 7, 8, 9]]
    expected = []
    for fork, piece in zip(forks, pieces, strict=True):
        alone = Session(engine).forward([*TOKENS[: fork.length], *piece])
        expected.append(alone[-len(piece) :].copy())
    rows = engine.forward(
        [Segment(fork, piece, len(piece)) for fork, piece in zip(forks, pieces, strict=True)]
    )
    equal = same if exact == "require" else close
    assert all(map(equal, rows, expected))


def test_more_rows_than_the_library_gives_at_once_come_in_pieces(opened):
    engine = opened("llama", exact="require")
    n = 2 * MAX_OUTPUTS + 5
    expected = np.concatenate(
        [Session(engine).forward(TOKENS[:3]), np.empty((0, engine.n_vocab), np.float32)]
    )
    cache, other = engine.new_cache(), engine.new_cache()
    rows, few = engine.forward([Segment(cache, TOKENS[:n], n), Segment(other, TOKENS[:3], 3)])
    assert rows.shape == (n, engine.n_vocab)
    assert same(rows[:3], expected)
    assert same(few, expected)


def test_rows_are_lent_and_not_copied(opened):
    engine = opened("llama")
    cache = engine.new_cache()
    [first] = engine.forward([Segment(cache, TOKENS[:1], 1)])
    before = first.copy()
    [second] = engine.forward([Segment(cache, TOKENS[1:2], 1)])
    assert not same(second, before)
    assert same(first, second)  # the same memory
    assert first.ctypes.data == second.ctypes.data


def test_rows_outlive_their_engine(models):
    engine = open_llama_cpp(models.path("llama", "Q8_0"), n_ctx=64, threads=1).engine
    [rows] = engine.forward([Segment(engine.new_cache(), TOKENS[:5], 5)])
    before = rows.copy()
    del engine
    gc.collect()
    assert same(rows, before)


def test_a_second_thread_overwrites_no_rows(models):
    """The first thread still reads, and goes on when it has read."""
    engine = open_llama_cpp(models.path("llama", "Q8_0"), n_ctx=64, threads=1).engine
    [rows] = engine.forward([Segment(engine.new_cache(), TOKENS[:5], 5)])
    before = rows.copy()
    started, done = threading.Event(), []

    def other() -> None:
        started.set()
        done.extend(engine.forward([Segment(engine.new_cache(), TOKENS[5:9], 2)]))

    thread = threading.Thread(target=other)
    thread.start()
    started.wait()
    assert same(rows, before)
    assert not done
    del rows
    thread.join()
    [mine] = done
    kept = mine.copy()
    engine.forward([Segment(engine.new_cache(), TOKENS[:5], 5)])
    assert same(mine, kept)


def test_rows_that_a_thread_never_gives_back_are_an_error(models, monkeypatch):
    monkeypatch.setattr("maglio.engine.llama_cpp.rows.PATIENCE", 0.01)
    engine = open_llama_cpp(models.path("llama", "Q8_0"), n_ctx=64, threads=1).engine
    [rows] = engine.forward([Segment(engine.new_cache(), TOKENS[:5], 5)])
    raised = []

    def other() -> None:
        try:
            engine.forward([Segment(engine.new_cache(), TOKENS[5:9], 2)])
        except EngineError as error:
            raised.append(str(error))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert len(raised) == 1
    assert "another thread still holds the rows" in raised[0]
    assert len(rows) == 5


def test_streams_that_do_not_fit_the_cache_are_out_of_memory_until_some_end(models):
    engine = open_llama_cpp(
        models.path("llama", "Q8_0"), n_ctx=256, threads=1, cache_tokens=512
    ).engine
    caches = [engine.new_cache() for _ in range(3)]
    long = [5] * 200
    for cache in caches[:2]:
        engine.forward([Segment(cache, long, 0)])
    with pytest.raises(OutOfMemoryError, match="do not fit the cache of all streams"):
        engine.forward([Segment(caches[2], long, 1)])
    assert [cache.length for cache in caches] == [200, 200, 0]
    expected = Session(engine).forward(TOKENS[:10])[-1:].copy()
    del caches[0], cache
    [rows] = engine.forward([Segment(caches[1], TOKENS[:10], 1)])
    assert close(rows, expected)


def test_more_streams_than_sequences_are_out_of_memory_until_some_end(opened):
    engine = opened("llama", exact="require", cache_tokens=1024)
    caches = [engine.new_cache() for _ in range(5)]
    for cache in caches[:4]:
        engine.forward([Segment(cache, TOKENS[:5], 0)])
    with pytest.raises(OutOfMemoryError, match="all 4 sequences"):
        engine.forward([Segment(caches[4], TOKENS[:5], 1)])
    caches[0].truncate(0)
    [rows] = engine.forward([Segment(caches[4], TOKENS[:5], 1)])
    with pytest.raises(OutOfMemoryError, match="all 4 sequences"):
        engine.forward([Segment(caches[0], TOKENS[:5], 1)])
    del caches[1], cache
    [rows] = engine.forward([Segment(caches[0], TOKENS[:5], 1)])
    assert rows.shape == (1, engine.n_vocab)


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (1, OutOfMemoryError, "more cache_tokens"),
        (2, EngineError, r"failed to compute \(status 2\)"),
        (-1, EngineError, r"refused a batch \(status -1\)"),
        (-2, OutOfMemoryError, "no memory for a forward"),
        (-3, EngineError, r"failed to compute \(status -3\)"),
    ],
)
@pytest.mark.parametrize("family", ["llama", "qwen35"])
def test_a_forward_that_fails_is_a_typed_error_and_changes_nothing(
    opened, monkeypatch, family, status, kind, message
):
    """Also where the library has computed a part of it."""
    engine = opened(family)
    caches = [engine.new_cache(), engine.new_cache()]
    for cache in caches:
        engine.forward([Segment(cache, TOKENS[:6], 0)])
    decode = contexts.llama_cpp.llama_decode
    if family == "llama":

        def fail(pointer, batch):
            batch.n_tokens = 2
            assert decode(pointer, batch) == 0
            return status

    else:  # where that would lose the state

        def fail(pointer, batch):
            return status

    monkeypatch.setattr(contexts.llama_cpp, "llama_decode", fail)
    with pytest.raises(kind, match=message):
        engine.forward([Segment(cache, TOKENS[6:9], 1) for cache in caches])
    monkeypatch.undo()
    expected = Session(engine).forward(TOKENS[:10])[6:].copy()
    for cache in caches:
        assert cache.length == 6
        [rows] = engine.forward([Segment(cache, TOKENS[6:10], 4)])
        assert close(rows, expected)


def test_a_recurrent_cache_that_fails_half_way_goes_back_to_a_place_kept(opened, monkeypatch):
    engine = opened("qwen35")
    expected = Session(engine).forward(TOKENS[:10]).copy()
    for kept in (0, 4):
        cache = engine.new_cache()
        engine.forward([Segment(cache, TOKENS[:4], 0)])
        if kept:
            cache.keep()
        engine.forward([Segment(cache, TOKENS[4:6], 0)])
        decode = contexts.llama_cpp.llama_decode

        def fail(pointer, batch, decode=decode):
            batch.n_tokens = 2
            assert decode(pointer, batch) == 0
            return -3

        monkeypatch.setattr(contexts.llama_cpp, "llama_decode", fail)
        with pytest.raises(EngineError):
            engine.forward([Segment(cache, TOKENS[6:9], 1)])
        monkeypatch.undo()
        assert cache.length == cache.floor == kept
        [rows] = engine.forward([Segment(cache, TOKENS[kept:10], 1)])
        assert close(rows, expected[-1:])


def test_a_recurrent_cache_cannot_be_cut_and_says_so(opened):
    engine = opened("qwen35")
    cache = engine.new_cache()
    engine.forward([Segment(cache, TOKENS[:6], 0)])
    cache.keep()
    engine.forward([Segment(cache, TOKENS[6:9], 0)])
    assert cache.floor == 9
    with pytest.raises(InvalidArgumentError, match="recurrent layers"):
        cache.fork(8)
    assert cache.fork(9).truncate(8) == 6
    assert cache.truncate(5) == 0


def test_a_cut_that_the_library_refuses_is_an_error(opened, monkeypatch):
    engine = opened("llama")
    cache = engine.new_cache()
    engine.forward([Segment(cache, TOKENS[:6], 0)])
    cache.truncate(3)
    monkeypatch.setattr(contexts.llama_cpp, "llama_memory_seq_rm", lambda *_: False)
    with pytest.raises(EngineError, match="did not cut a sequence to 3"):
        engine.forward([Segment(cache, TOKENS[3:6], 1)])


def test_an_engine_refuses_the_caches_of_another(opened):
    with pytest.raises(InvalidArgumentError, match="another engine"):
        opened("llama").forward([Segment(opened("gemma3").new_cache(), [1], 1)])


def test_nobody_calls_shared_cells_exact(opened):
    engine = opened("llama")
    with pytest.raises(AttributeError):
        engine.exactness = "bitwise"
    assert "exact='require'" in engine.exactness_remedy
    assert opened("llama", exact="require").exactness_remedy == ""
