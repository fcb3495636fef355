"""The row law in batches and over forks: a segment's rows are those of its sequence alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio.engine.base import Cache, Segment
from maglio.engine.native import NativeEngine
from maglio.engine.session import Session
from support.models import FAMILIES
from support.tiny import ISAS, TinyModels, random_tokens, some_cache

N_TOKENS = 200  # crosses three borders of 64 positions and gemma3's window of 32
BRANCHES = 3
MODELS = [(family, fmt) for family in FAMILIES for fmt in ("F16", "Q4_0", "Q5_1", "Q6_K", "Q8_0")]


class Stream:
    """A cache, and the tokens that it is fed one part after the other."""

    def __init__(self, cache: Cache, tokens: list[int]) -> None:
        self.cache = cache
        self.tokens = tokens

    def become_fork(self, other: Stream, length: int, tail: list[int]) -> None:
        """Go on from the first positions of another stream with tokens of its own."""
        self.cache = other.cache.fork(length)
        self.tokens = other.tokens[:length] + tail[length:]


def rows_alone(engine: NativeEngine, tokens: list[int]) -> np.ndarray:
    session = Session(engine)
    return np.concatenate([session.forward([token]) for token in tokens])


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and bool((a.view(np.uint32) == b.view(np.uint32)).all())


class Truth:
    """Rows of sequences alone, one token at a time; each sequence computed once."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, tuple[int, ...]], np.ndarray] = {}

    def rows(self, engine: NativeEngine, tokens: list[int]) -> np.ndarray:
        key = (id(engine), tuple(tokens))
        if key not in self._rows:
            self._rows[key] = rows_alone(engine, tokens)
        return self._rows[key]


@pytest.fixture(scope="module")
def truth() -> Truth:
    return Truth()


def stream_tokens(engine: NativeEngine, branch: int) -> list[int]:
    return random_tokens(engine.n_vocab, N_TOKENS, branch)


# What happens to one cache: (kind, number).
ACTIONS = st.one_of(
    st.tuples(st.just("prefill"), st.integers(1, 64)),  # no rows wanted
    st.tuples(st.just("last row"), st.integers(1, 64)),
    st.tuples(st.just("verify"), st.integers(1, 8)),
    st.tuples(st.just("plain"), st.just(1)),
    st.tuples(st.just("reject"), st.integers(2, 8)),
    st.tuples(st.just("truncate"), st.integers(0, N_TOKENS)),
    st.tuples(st.just("fork"), st.integers(0, N_TOKENS)),
)
# Steps of up to 16 caches: which cache, and what.
STEPS = st.lists(
    st.lists(
        st.tuples(st.integers(0, 15), ACTIONS), min_size=1, max_size=16, unique_by=lambda a: a[0]
    ),
    min_size=1,
    max_size=7,
)


@settings(max_examples=250, deadline=None)
@given(
    model=st.sampled_from(MODELS),
    isa=st.sampled_from(ISAS),
    threads=st.sampled_from([1, 2]),
    n_caches=st.integers(2, 16),
    steps=STEPS,
)
def test_no_neighbour_and_no_fork_changes_a_bit(
    tiny: TinyModels,
    truth: Truth,
    model: tuple[str, str],
    isa: str,
    threads: int,
    n_caches: int,
    steps: list[list[tuple[int, tuple[str, int]]]],
) -> None:
    cache = some_cache(model[1])
    reference = tiny.engine(*model, kv_cache=cache)
    engine = tiny.engine(*model, isa=isa, threads=threads, kv_cache=cache)
    tokens = [stream_tokens(engine, branch) for branch in range(BRANCHES)]
    streams = [Stream(engine.new_cache(), tokens[i % BRANCHES]) for i in range(n_caches)]
    for step in steps:
        batch: list[Segment] = []
        judged: list[tuple[Stream, str, int, int]] = []
        room = engine.max_rows
        for index, (kind, n) in step:
            stream = streams[index % n_caches]
            if any(stream is other for other, *_ in judged):
                continue
            at = stream.cache.length
            if kind == "truncate":
                floor = stream.cache.floor
                kept = stream.cache.truncate(min(n, at))
                assert kept == min(n, at) or kept < n < floor
                continue
            if kind == "fork":
                heir = streams[(index + 1 + n) % n_caches]
                if heir is not stream and all(heir is not other for other, *_ in judged):
                    length = max(min(n, at), stream.cache.floor)
                    heir.become_fork(stream, length, tokens[n % BRANCHES])
                continue
            n = min(n, N_TOKENS - at, room)
            if n < 1:
                continue
            room -= n
            fed = stream.tokens[at : at + n]
            if kind == "reject":  # a draft of which only the first token was right
                fed = [fed[0], *((token + 1) % engine.n_vocab for token in fed[1:])]
            wanted = {"prefill": 0, "last row": 1}.get(kind, n)
            batch.append(Segment(stream.cache, fed, wanted))
            judged.append((stream, kind, at, wanted))
        if not batch:
            continue
        for rows, segment, (stream, kind, at, wanted) in zip(
            engine.forward(batch), batch, judged, strict=True
        ):
            expected = truth.rows(reference, stream.tokens)
            end = at + len(segment.tokens)
            assert stream.cache.length == end
            if kind == "reject":
                assert same_bits(rows[:1], expected[at : at + 1])
                stream.cache.truncate(at + 1)
                continue
            assert same_bits(rows, expected[end - wanted : end])


@pytest.mark.parametrize("family", FAMILIES)
def test_forks_around_the_border_of_a_page_go_on_alone(
    tiny: TinyModels, truth: Truth, family: str
) -> None:
    one = tiny.engine(family, "Q8_0", kv_cache="q8_0")
    engine = tiny.engine(family, "Q8_0", threads=2, kv_cache="q8_0")
    first = stream_tokens(engine, 0)
    for offset in range(65):
        at = 32 + offset  # from the middle of a page to the middle of the next
        second = first[:at] + random_tokens(engine.n_vocab, 40, offset)
        expected, other = truth.rows(one, first), rows_alone(one, second)
        cache = engine.new_cache()
        engine.forward([Segment(cache, first[:100], 100)])
        fork = cache.fork(at)
        rows = engine.forward([Segment(fork, second[at:], 40), Segment(cache, first[100:140], 40)])
        assert same_bits(rows[0], other[at:]), at
        assert same_bits(rows[1], expected[100:140]), at
        floor = cache.floor
        kept = cache.truncate(at)  # back onto the page that the fork came from
        assert kept == at or at < floor
        assert same_bits(Session(engine, cache).prefill(first[kept:150]), expected[149])
        assert same_bits(
            engine.forward([Segment(fork.fork(at), first[at:150], 1)])[0], expected[149:150]
        )


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_of_every_size(tiny: TinyModels, truth: Truth, family: str, threads: int) -> None:
    one = tiny.engine(family, "Q4_1")
    engine = tiny.engine(family, "Q4_1", threads=threads)
    streams = [stream_tokens(engine, branch) for branch in range(BRANCHES)]
    for count in range(2, 17):
        caches = [engine.new_cache() for _ in range(count)]
        for i, cache in enumerate(caches):
            engine.forward([Segment(cache, streams[i % BRANCHES][: 7 * i + 1], 0)])
        batch = [
            Segment(cache, streams[i % BRANCHES][7 * i + 1 :][: 1 + i % 3], 1 + i % 3)
            for i, cache in enumerate(caches)
        ]
        for i, rows in enumerate(engine.forward(batch)):
            expected = truth.rows(one, streams[i % BRANCHES])
            assert same_bits(rows, expected[7 * i + 1 : 7 * i + 2 + i % 3])
