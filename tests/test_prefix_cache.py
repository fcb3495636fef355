"""Beginnings that are known: found where a slow obvious twin finds them, bounded, and exact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from threading import Thread

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from maglio import prefix_cache
from maglio.engine.base import Cache, Engine
from maglio.errors import InvalidArgumentError
from maglio.prefix_cache import POSITION_BYTES, PrefixCache, PrefixStats
from maglio.prefix_tree import Node, PrefixTree
from support.family_files import HYBRID
from support.feeding import feed
from support.tiny import TinyModels, random_tokens
from support.toy_engine import ToyEngine

PLENTY = 1 << 40


def stream(engine: Engine, prefixes: PrefixCache, tokens: Sequence[int], tenant: str = "a") -> int:
    """Compute a stream on what is known of it, and put it; how much was known."""
    cache = prefixes.take(tokens, tenant=tenant)
    known = cache.length
    feed(engine, cache, tokens[known:], 1)
    prefixes.put(tokens, cache, tenant=tenant)
    return known


# --- what is found --------------------------------------------------------------------------------


def reachable(cache: Cache) -> list[int]:
    """Every length that a fork of a cache can be cut to, by trying all of them."""
    lengths = range(1, cache.length + 1)
    return [n for n in lengths if cache.fork(cache.length).truncate(n) == n]


class Prefixes(RuleBasedStateMachine):
    """Against a dict of all beginnings that any stream has left."""

    def __init__(self, *, is_hybrid: bool, positions: int, shared: bool) -> None:
        super().__init__()
        self.is_hybrid = is_hybrid
        self.positions = positions
        self.shared = shared

    @initialize()
    def begin(self) -> None:
        self.engine = ToyEngine(n_vocab=4, is_hybrid=self.is_hybrid)
        self.prefixes = PrefixCache(
            self.engine, max_bytes=self.positions * POSITION_BYTES, shared=self.shared
        )
        self.known: dict[str, set[tuple[int, ...]]] = {"a": set(), "b": set()}
        self.was_bounded = False

    @rule(
        prompt=st.lists(st.integers(0, 2), min_size=1, max_size=12),
        answer=st.lists(st.integers(0, 2), max_size=5),
        pieces=st.integers(1, 12),
        tenant=st.sampled_from("ab"),
        keeps=st.booleans(),
        whole=st.booleans(),
    )
    def run(
        self,
        prompt: list[int],
        answer: list[int],
        pieces: int,
        tenant: str,
        keeps: bool,
        whole: bool,
    ) -> None:
        cache = self.taken(prompt, tenant)
        rest = prompt[cache.length :]
        for at in range(0, len(rest), pieces):
            piece = rest[at : at + pieces]
            feed(self.engine, cache, piece, len(piece) if whole else 0)
        if keeps:
            cache.keep()
        if answer:
            feed(self.engine, cache, answer, len(answer))
        tokens = [*prompt, *answer]
        self.prefixes.put([*tokens, 3], cache, tenant=tenant)
        assert cache.tokens == tokens
        known = self.known["a" if self.shared else tenant]
        known |= {tuple(tokens[:n]) for n in reachable(cache)}

    @rule(prompt=st.lists(st.integers(0, 2), min_size=1, max_size=14), tenant=st.sampled_from("ab"))
    def take(self, prompt: list[int], tenant: str) -> None:
        self.taken(prompt, tenant)

    def taken(self, prompt: list[int], tenant: str) -> Cache:
        told = self.prefixes.length(prompt, tenant=tenant)
        cache = self.prefixes.take(prompt, tenant=tenant)
        assert told == cache.length
        assert cache.tokens == prompt[: cache.length]
        known = self.known["a" if self.shared else tenant]
        longest = max((n for n in range(len(prompt)) if tuple(prompt[:n]) in known), default=0)
        assert cache.length <= longest
        assert cache.length == longest or self.was_bounded
        return cache

    @rule(positions=st.integers(0, 6))
    def release(self, positions: int) -> None:
        before = self.prefixes.stats.bytes
        freed = self.prefixes.release(positions * POSITION_BYTES)
        assert min(before, positions * POSITION_BYTES) <= freed <= before
        assert self.prefixes.stats.bytes == before - freed

    @invariant()
    def bounds_and_counts_hold(self) -> None:
        if not hasattr(self, "prefixes"):
            return
        stats = self.prefixes.stats
        self.was_bounded |= stats.evictions > 0
        held = [node.cache for _, node in self.prefixes._nodes() if node.cache is not None]
        assert stats.bytes == sum(cache.length for cache in held) * POSITION_BYTES
        assert stats.bytes <= self.positions * POSITION_BYTES
        assert stats.tokens <= sum(cache.length for cache in held)
        if held:
            used = [node.used for _, node in self.prefixes._nodes() if node.cache is not None]
            assert self.prefixes._recency.first().node.used == min(used)
        if not self.is_hybrid:  # none is a beginning of another
            trees = {id(tree): tree for tree, _ in self.prefixes._nodes()}.values()
            for tree in trees:
                assert all(not node.children for node in tree if node.cache is not None)

    @invariant()
    def every_node_is_where_its_tokens_lead(self) -> None:
        for tree, node in self.prefixes._nodes() if hasattr(self, "prefixes") else ():
            tokens = node.tokens()
            assert len(tokens) == node.depth
            assert tree.match(tokens).path[-1] is node
            assert node is tree.root or node.cache is not None or len(node.children) > 1
            if node.cache is not None:
                assert node.cache.tokens == tokens.tolist()
            floors = [child.floor for child in node.children.values()]
            floors += [] if node.cache is None else [node.cache.floor]
            assert not floors or node.floor == min(floors)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("positions", [1 << 20, 30])
@pytest.mark.parametrize("is_hybrid", [False, True])
def test_what_is_found_is_what_a_dict_of_all_beginnings_finds(
    is_hybrid: bool, positions: int, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefix_cache, "_LEAST_CUT", 2)  # streams are short here
    machine = partial(Prefixes, is_hybrid=is_hybrid, positions=positions, shared=shared)
    run_state_machine_as_test(
        machine, settings=settings(max_examples=40, stateful_step_count=25, deadline=None)
    )


def test_nothing_of_one_tenant_reaches_another() -> None:
    engine = ToyEngine()
    prefixes = PrefixCache(engine, max_bytes=PLENTY)
    stream(engine, prefixes, [1, 2, 3, 4], "a")
    assert prefixes.take([1, 2, 3, 4], tenant="b").length == 0
    assert prefixes.take([1, 2, 3, 4], tenant="a").length == 3
    shared = PrefixCache(engine, max_bytes=PLENTY, shared=True)
    stream(engine, shared, [1, 2, 3, 4], "a")
    assert shared.take([1, 2, 3, 4], tenant="b").length == 3


def test_counters_say_what_was_asked_for_and_found() -> None:
    engine = ToyEngine()
    prefixes = PrefixCache(engine, max_bytes=PLENTY)
    assert prefixes.stats == PrefixStats()
    assert stream(engine, prefixes, [1, 2, 3, 4]) == 0
    assert prefixes.length([1, 2, 3, 5], tenant="a") == 3  # counts as no request
    assert stream(engine, prefixes, [1, 2, 3, 5]) == 3
    assert stream(engine, prefixes, [1, 2, 3, 5, 6]) == 4
    assert prefixes.stats == PrefixStats(
        requests=3, hits=2, hit_tokens=7, tokens=6, bytes=9 * POSITION_BYTES, evictions=0
    )
    prefixes.clear()
    assert prefixes.stats == PrefixStats(requests=3, hits=2, hit_tokens=7)


def test_a_cache_that_is_taken_or_put_is_independent_of_what_is_held() -> None:
    engine = ToyEngine()
    prefixes = PrefixCache(engine, max_bytes=PLENTY)
    cache = engine.new_cache()
    feed(engine, cache, [1, 2, 3])
    prefixes.put([1, 2, 3], cache, tenant="a")
    cache.truncate(0)
    taken = prefixes.take([1, 2, 3, 4], tenant="a")
    feed(engine, taken, [9])
    assert prefixes.take([1, 2, 3, 9, 9], tenant="a").tokens == [1, 2, 3]


def test_what_was_used_least_recently_goes_first_and_from_its_end() -> None:
    engine = ToyEngine()
    prefixes = PrefixCache(engine, max_bytes=1000 * POSITION_BYTES)
    first, second, third = ([n] * 400 for n in (1, 2, 3))
    stream(engine, prefixes, first)
    stream(engine, prefixes, second)
    prefixes.take(first, tenant="a")
    stream(engine, prefixes, third)
    assert prefixes.take(second, tenant="a").length == 200
    assert prefixes.take(first, tenant="a").length == 399
    assert prefixes.take(third, tenant="a").length == 399
    assert prefixes.stats.evictions == 1


def test_room_is_made_without_a_look_at_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ToyEngine()
    prefixes = PrefixCache(engine, max_bytes=2000 * POSITION_BYTES)
    looked = 0
    nodes = PrefixTree.__iter__

    def counted(tree: PrefixTree) -> Iterator[Node]:
        nonlocal looked
        for node in nodes(tree):
            looked += 1
            yield node

    monkeypatch.setattr(PrefixTree, "__iter__", counted)
    for n in range(300):
        stream(engine, prefixes, [n % 50] * 10 + [n // 50] * 10)
    assert looked == 0
    assert prefixes.stats.evictions >= 200
    assert looked > 0


def test_what_is_held_no_more_is_not_remembered_for_its_turn() -> None:
    engine = ToyEngine()
    prefixes = PrefixCache(engine, max_bytes=PLENTY)
    for n in range(500):
        stream(engine, prefixes, [k % 50 for k in range(n + 1)])
    assert prefixes.stats.tokens == 500
    assert len(prefixes._recency) < 100


def test_a_beginning_in_use_outlives_what_came_after_it() -> None:
    engine = ToyEngine()
    prefixes = PrefixCache(engine, max_bytes=1000 * POSITION_BYTES)
    stream(engine, prefixes, [1] * 200 + [2] * 100)
    stream(engine, prefixes, [1] * 200 + [3] * 100)
    stream(engine, prefixes, [4] * 400)
    prefixes.take([1] * 200 + [5], tenant="a")
    stream(engine, prefixes, [6] * 490)
    assert prefixes.take([1] * 201, tenant="a").length == 200
    assert prefixes.take([4] * 400, tenant="a").length < 250


def test_a_long_conversation_of_a_hybrid_keeps_its_last_turns() -> None:
    engine = ToyEngine(is_hybrid=True)
    prefixes = PrefixCache(engine, max_bytes=500 * POSITION_BYTES)
    tokens: list[int] = []
    for turn in range(12):
        tokens += [turn] * 10
        known = stream(engine, prefixes, tokens)
        assert known == 10 * turn
    assert prefixes.stats.evictions > 0
    assert prefixes.take([0] * 10, tenant="a").length == 0
    prefixes.take([*tokens[:90], 5], tenant="a")
    stream(engine, prefixes, [50] * 300)
    assert prefixes.take([*tokens[:90], 5], tenant="a").length == 90  # it was used


def test_a_stream_longer_than_the_bound_keeps_its_beginning() -> None:
    engine = ToyEngine()
    prefixes = PrefixCache(engine, max_bytes=100 * POSITION_BYTES)
    stream(engine, prefixes, [1] * 500)
    assert prefixes.take([1] * 500, tenant="a").length == 100
    assert stream(engine, PrefixCache(engine, max_bytes=0), [1] * 500) == 0


def test_memory_is_reclaimed_an_eighth_at_a_time_until_there_is_none() -> None:
    engine = ToyEngine()
    prefixes = PrefixCache(engine, max_bytes=PLENTY)
    for n in range(16):
        stream(engine, prefixes, [n] * 200)
    assert prefixes.reclaim()
    assert 2700 * POSITION_BYTES <= prefixes.stats.bytes <= 2800 * POSITION_BYTES
    assert prefixes.take([0] * 200, tenant="a").length == 0
    assert prefixes.take([15] * 200, tenant="a").length == 199
    while prefixes.reclaim():
        pass
    assert prefixes.stats.bytes == prefixes.stats.tokens == 0


def test_impossible_arguments_are_refused() -> None:
    engine = ToyEngine()
    prefixes = PrefixCache(engine, max_bytes=PLENTY)
    cache = engine.new_cache()
    feed(engine, cache, [1, 2, 3])
    with pytest.raises(InvalidArgumentError, match="holds 3 positions and tokens has 2"):
        prefixes.put([1, 2], cache, tenant="a")
    with pytest.raises(InvalidArgumentError, match="max_bytes"):
        PrefixCache(engine, max_bytes=-1)
    with pytest.raises(InvalidArgumentError, match="n_bytes"):
        prefixes.release(-1)
    with pytest.raises(InvalidArgumentError, match="tokens"):
        prefixes.take([-1], tenant="a")


# --- the native engine ----------------------------------------------------------------------------

FAMILIES = [
    ("llama", "Q4_0", "f16"),
    ("llama", "Q8_0", "q8_0"),
    ("gemma3", "Q8_0", "q8_0"),
    ("gpt-oss", "Q4_0", "f16"),
    ("qwen3moe", "Q4_0", "q8_0"),
    ("qwen35", "Q8_0", "f16"),
    ("qwen35", "Q4_0", "q8_0"),
    ("lfm2", "Q8_0", "q8_0"),
]


@pytest.mark.parametrize(("family", "fmt", "kv_cache"), FAMILIES)
def test_rows_on_a_taken_cache_are_those_on_a_fresh_one(
    tiny: TinyModels, family: str, fmt: str, kv_cache: str
) -> None:
    engine = tiny.engine(family, fmt, kv_cache=kv_cache)
    prefixes = PrefixCache(engine, max_bytes=PLENTY)
    random = np.random.default_rng(7)
    system = random_tokens(engine.n_vocab, 70)
    streams = [[*system, *random.integers(0, 2, 9).tolist()]]
    for _ in range(12):
        earlier = streams[random.integers(len(streams))]
        prompt = [*earlier[: random.choice([random.integers(60, 80), len(earlier)])]]
        prompt += random.integers(0, 2, random.integers(1, 40)).tolist()
        cache = prefixes.take(prompt, tenant="a")
        rows = [feed(engine, cache, prompt[cache.length :], 1)]
        cache.keep()
        answer = random.integers(0, engine.n_vocab, 5).tolist()
        rows.append(feed(engine, cache, answer, 5))
        cache.truncate(len(prompt) + 3)  # a draft of which three tokens stand
        streams.append([*prompt, *answer[:3]])
        prefixes.put(streams[-1], cache, tenant="a")
        fresh = feed(engine, engine.new_cache(), [*prompt, *answer], 6)
        np.testing.assert_array_equal(np.concatenate(rows), fresh)
    assert prefixes.stats.hits > 4


@pytest.mark.parametrize("family", ["llama", *HYBRID])
def test_a_prompt_is_known_to_its_last_token_and_an_answered_one_to_its_end(
    tiny: TinyModels, family: str
) -> None:
    engine = tiny.engine(family, "Q8_0")
    prefixes = PrefixCache(engine, max_bytes=PLENTY)
    prompt = random_tokens(engine.n_vocab, 150)
    cache = engine.new_cache()
    feed(engine, cache, prompt, 1)
    cache.keep()
    for token in (1, 2, 3):
        feed(engine, cache, [token], 1)
    prefixes.put([*prompt, 1, 2, 3], cache, tenant="a")
    assert prefixes.take(prompt, tenant="a").length == 149  # another answer
    assert prefixes.take([*prompt, 7, 7], tenant="a").length >= 149
    assert prefixes.take([*prompt, 1, 2, 3, 4], tenant="a").length == 153  # the next turn
    taken = prefixes.take([*prompt, 1, 2, 3, 4], tenant="a")
    feed(engine, taken, [4, 5, 6], 1)
    assert taken.truncate(153) >= 152  # where memory is short, a stream goes back to its beginning


@pytest.mark.parametrize("family", ["llama", *HYBRID])
def test_pages_that_streams_share_are_held_and_counted_once(tiny: TinyModels, family: str) -> None:
    engine = tiny.engine(family, "Q4_1")
    prefixes = PrefixCache(engine, max_bytes=PLENTY)
    system = random_tokens(engine.n_vocab, 128)
    cache = engine.new_cache()
    feed(engine, cache, system, 1)
    cache.keep()
    prefixes.put(system, cache, tenant="a")
    del cache
    for n in range(10):
        stream(engine, prefixes, [*system, n, n])
    stats = prefixes.stats
    assert stats.bytes == engine.cache_bytes
    assert stats.tokens == 128 + 2 * 10
    if family == "llama":
        assert stats.bytes == (2 + 10) * engine.page_bytes
    prefixes.release(stats.bytes)
    assert engine.cache_bytes == prefixes.stats.bytes == 0
    stream(engine, prefixes, system)
    stream(engine, prefixes, system[:50])
    prefixes.clear()
    assert engine.cache_bytes == prefixes.stats.bytes == 0


def test_threads_take_and_put_at_the_same_time(tiny: TinyModels) -> None:
    engine = tiny.engine("llama", "Q4_0")
    prefixes = PrefixCache(engine, max_bytes=40 * engine.page_bytes)
    failures = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        try:
            for _ in range(30):
                tokens = random.integers(0, 2, random.integers(1, 200)).tolist()
                stream(engine, prefixes, tokens, "ab"[seed % 2])
                prefixes.release(engine.page_bytes)
        except Exception as error:
            failures.append(error)

    threads = [Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert prefixes.stats.bytes == engine.cache_bytes <= 40 * engine.page_bytes
