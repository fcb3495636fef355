"""The row law: a position's logits depend on the tokens up to it and on nothing else, to the bit.

Every row is compared with the one that a fresh cache gives when its tokens come one at a time on
one thread.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio import _core
from maglio.engine.native import NativeEngine
from maglio.engine.session import Session
from support.models import FAMILIES, MODELS, TINY
from support.tiny import ISAS, TinyModels, random_tokens, some_cache

N_TOKENS = 200  # crosses three borders of 64 positions and gemma3's window of 32


@functools.cache
def truth(engine: NativeEngine, seed: int, n: int = N_TOKENS) -> tuple[list[int], np.ndarray]:
    """Random tokens and their rows, one at a time."""
    tokens = random_tokens(engine.n_vocab, n, seed)
    return tokens, one_at_a_time(engine, tokens)


def one_at_a_time(engine: NativeEngine, tokens: list[int]) -> np.ndarray:
    session = Session(engine)
    return np.concatenate([session.forward([token]) for token in tokens])


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and bool((a.view(np.uint32) == b.view(np.uint32)).all())


WIDTHS = st.integers(1, 64)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("forward"), WIDTHS),
        st.tuples(st.just("prefill"), WIDTHS),
        st.tuples(st.just("reject"), WIDTHS),
        st.tuples(st.just("truncate"), st.integers(0, N_TOKENS)),
    ),
    min_size=1,
    max_size=10,
)


@settings(max_examples=300, deadline=None)
@given(
    model=st.sampled_from(MODELS),
    threads=st.sampled_from([1, 2]),
    seed=st.integers(0, 2),
    operations=OPERATIONS,
)
def test_no_chunking_truncation_or_thread_count_changes_a_bit(
    tiny: TinyModels,
    model: tuple[str, str],
    threads: int,
    seed: int,
    operations: list[tuple[str, int]],
) -> None:
    cache = some_cache(model[1])
    tokens, rows = truth(tiny.engine(*model, kv_cache=cache), seed)
    engine = tiny.engine(*model, threads=threads, kv_cache=cache)
    session = Session(engine)
    for operation, n in operations:
        at = session.length
        if operation == "truncate":
            session.truncate(min(n, at))
            continue
        chunk = tokens[at : at + n]
        if not chunk:
            continue
        if operation == "prefill":
            assert same_bits(session.prefill(chunk), rows[at + len(chunk) - 1])
            continue
        if operation == "reject":  # a draft of which only the first token was right
            wrong = [(token + 1) % engine.n_vocab for token in chunk[1:]]
            assert same_bits(session.forward([chunk[0], *wrong])[0], rows[at])
            session.truncate(at + 1)
            continue
        assert same_bits(session.forward(chunk), rows[at : at + len(chunk)])


@settings(max_examples=60, deadline=None)
@given(data=st.data(), family=st.sampled_from(FAMILIES), threads=st.sampled_from([1, 2]))
def test_two_cuts_of_any_stream_agree(
    tiny: TinyModels, data: st.DataObject, family: str, threads: int
) -> None:
    engine = tiny.engine(family, "Q4_0", threads=threads)
    ids = st.integers(0, engine.n_vocab - 1)
    tokens = data.draw(st.lists(ids, min_size=2, max_size=100))
    cut = data.draw(st.integers(1, len(tokens) - 1))
    whole = Session(engine).forward(tokens)
    session = Session(engine)
    last = session.prefill(tokens[:cut])
    assert same_bits(last, whole[cut - 1])
    assert same_bits(session.forward(tokens[cut:]), whole[cut:])


@pytest.mark.parametrize(("family", "fmt"), MODELS)
def test_every_width_of_every_format_is_plain_decoding(
    tiny: TinyModels, family: str, fmt: str
) -> None:
    cache = some_cache(fmt)
    tokens, rows = truth(tiny.engine(family, fmt, kv_cache=cache), 0)
    session = Session(tiny.engine(family, fmt, threads=2, kv_cache=cache))
    context = 60  # wide forwards then cross a border of 64 positions
    session.forward(tokens[:context])
    for width in range(1, 65):
        got = session.forward(tokens[context : context + width])
        assert same_bits(got, rows[context : context + width]), width
        session.truncate(context)


@pytest.mark.parametrize("isa", ISAS[1:])
@pytest.mark.parametrize(("family", "fmt"), MODELS)
def test_every_instruction_set_gives_the_same_bits(
    tiny: TinyModels, family: str, fmt: str, isa: str
) -> None:
    cache = some_cache(fmt)
    tokens, rows = truth(tiny.engine(family, fmt, kv_cache=cache), 0)
    engine = tiny.engine(family, fmt, isa=isa, kv_cache=cache)
    assert engine.isa == isa
    session = Session(engine)
    at = 0
    for width in (1, 2, 3, 4, 5, 7, 8, 11, 16, 33, 60):  # 150 positions, every kernel width
        assert same_bits(session.forward(tokens[at : at + width]), rows[at : at + width]), width
        at += width


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("cache", ["f16", "q8_0"])
@pytest.mark.parametrize("window", [1, 63, 64, 65, 100])
def test_windows_of_any_size_keep_the_law_far_beyond_them(
    tiny: TinyModels, window: int, cache: str, threads: int
) -> None:
    load = functools.partial(
        tiny.engine,
        "gemma3",
        "Q8_0",
        shape=replace(TINY["gemma3"], window=window, n_ctx=512),
        kv_cache=cache,
    )
    tokens, rows = truth(load(), 0, 330)
    session = Session(load(threads=threads))
    for start, stop in [(0, 90), (90, 91), (91, 220), (220, 330)]:
        assert same_bits(session.forward(tokens[start:stop]), rows[start:stop])
    session.truncate(250)  # within reach of every window: nothing was evicted
    assert same_bits(session.forward(tokens[250:314]), rows[250:314])


@pytest.mark.parametrize("family", FAMILIES)
def test_more_rows_than_a_native_forward_takes_are_cut(tiny: TinyModels, family: str) -> None:
    tokens, rows = truth(tiny.engine(family, "Q4_1"), 0)
    assert len(tokens) > _core.Engine.MAX_ROWS
    session = Session(tiny.engine(family, "Q4_1", threads=2))
    assert same_bits(session.forward(tokens), rows)
    session.truncate(0)
    assert same_bits(session.prefill(tokens), rows[-1])


def test_sessions_of_one_engine_do_not_mix(tiny: TinyModels) -> None:
    engine = tiny.engine("qwen3", "Q4_0")
    tokens, rows = truth(engine, 0)
    other_tokens, other_rows = truth(engine, 1)
    one, other = Session(engine), Session(engine)
    for at in range(0, N_TOKENS, 20):
        assert same_bits(one.forward(tokens[at : at + 20]), rows[at : at + 20])
        assert same_bits(other.forward(other_tokens[at : at + 20]), other_rows[at : at + 20])


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_depend_on_what_came_before(tiny: TinyModels, family: str) -> None:
    # The law would be empty otherwise.
    engine = tiny.engine(family, "Q4_0")
    tokens, rows = truth(engine, 0)
    assert not same_bits(one_at_a_time(engine, [tokens[1]])[0], rows[1])
