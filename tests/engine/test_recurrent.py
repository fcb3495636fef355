"""Recurrent layers: what a cache can go back to, what it costs, and that it changes nothing."""

from __future__ import annotations

import gc
from dataclasses import replace
from functools import partial

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

from maglio import _core
from maglio.engine.base import Segment
from maglio.engine.native import NativeEngine
from maglio.engine.session import Session
from maglio.errors import InvalidArgumentError, OutOfMemoryError
from maglio.gguf import ModelFile
from support.family_files import HYBRID, Family
from support.gguf_bytes import RawGguf, RawTensor
from support.goldens import log_softmax
from support.models import TINY
from support.reference import Reference
from support.tiny import ISAS, TinyModels, random_tokens
from support.workshop import LIMIT, Workshop

# --- what a cache can go back to ------------------------------------------------------------------


class Twin:
    """A cache, the tokens that it should hold, and the lengths that it should be able to reach."""

    def __init__(
        self, cache: _core.Cache, tokens: list[int], floor: int, places: list[int]
    ) -> None:
        self.cache = cache
        self.tokens = tokens
        self.floor = floor
        self.places = places


class Caches(RuleBasedStateMachine):
    """Forks of one stream against a model that is computed from its first token each time."""

    def __init__(self, engine: NativeEngine, truth: dict[tuple[int, ...], np.ndarray]) -> None:
        super().__init__()
        self.engine = engine
        self.truth = truth

    @initialize()
    def begin(self) -> None:
        self.twins = [Twin(self.engine.new_cache(), [], 0, [])]

    def twin(self, number: int) -> Twin:
        return self.twins[number % len(self.twins)]

    def row(self, tokens: list[int]) -> np.ndarray:
        """The last row of a stream, from scratch."""
        key = tuple(tokens)
        if key not in self.truth:
            self.truth[key] = Session(self.engine).prefill(tokens).copy()
        return self.truth[key]

    @rule(
        number=st.integers(0, 3),
        tokens=st.lists(st.integers(0, 3), min_size=1, max_size=9),
        data=st.data(),
    )
    def forward(self, number: int, tokens: list[int], data: st.DataObject) -> None:
        twin = self.twin(number)
        if len(twin.tokens) + len(tokens) > 60:
            return
        n_logits = data.draw(st.integers(0, len(tokens)))
        [rows] = self.engine.forward([Segment(twin.cache, tokens, n_logits)])
        twin.tokens += tokens
        twin.floor = len(twin.tokens) - max(1, n_logits)
        for i, row in enumerate(rows):
            end = len(twin.tokens) - n_logits + i + 1
            np.testing.assert_array_equal(row, self.row(twin.tokens[:end]))

    @rule(number=st.integers(0, 3), back=st.integers(0, 12))
    def truncate(self, number: int, back: int) -> None:
        twin = self.twin(number)
        length = max(0, len(twin.tokens) - back)
        kept = twin.cache.truncate(length)
        if length < twin.floor:
            twin.places = [place for place in twin.places if place <= length]
            twin.floor = max(twin.places, default=0)
            length = twin.floor
        assert kept == length
        del twin.tokens[length:]

    @rule(number=st.integers(0, 3))
    def keep(self, number: int) -> None:
        twin = self.twin(number)
        twin.cache.keep()
        twin.places = sorted({*twin.places, twin.floor} - {0})[-4:]

    @rule(number=st.integers(0, 3), back=st.integers(0, 12))
    def fork(self, number: int, back: int) -> None:
        twin = self.twin(number)
        length = max(twin.floor, len(twin.tokens) - back)
        fork = Twin(twin.cache.fork(length), twin.tokens[:length], twin.floor, list(twin.places))
        self.twins = [*self.twins, fork][-4:]

    @rule(number=st.integers(0, 3))
    def close(self, number: int) -> None:
        if len(self.twins) > 1:
            del self.twins[number % len(self.twins)]

    @invariant()
    def lengths_and_floors_are_as_told(self) -> None:
        for twin in getattr(self, "twins", ()):
            assert twin.cache.length == len(twin.tokens)
            assert twin.cache.floor == twin.floor


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("family", HYBRID)
def test_whatever_is_taken_back_or_forked_rows_are_those_from_scratch(
    tiny: TinyModels, family: str, threads: int
) -> None:
    machine = partial(Caches, tiny.engine(family, "Q8_0", threads=threads), {})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=25, stateful_step_count=25, deadline=None)
    )


@pytest.mark.parametrize("family", HYBRID)
def test_a_fork_below_the_floor_is_refused_and_says_where_it_is(
    tiny: TinyModels, family: str
) -> None:
    engine = tiny.engine(family, "Q4_0")
    cache = engine.new_cache()
    engine.forward([Segment(cache, [1] * 9, 2)])
    with pytest.raises(InvalidArgumentError, match=r"length is 6, .* 7 to 9"):
        cache.fork(6)


def test_rows_alone_decide_where_a_cache_goes_back_to_not_how_often_it_did(
    tiny: TinyModels,
) -> None:
    engine = tiny.engine("qwen35", "Q4_0")
    tokens = random_tokens(engine.n_vocab, 40)
    expected = Session(engine).forward(tokens)
    cache = engine.new_cache()
    engine.forward([Segment(cache, tokens[:20], 20)])
    for length in (19, 11, 4, 4, 1, 0):  # each from the same rows
        assert cache.truncate(length) == length
        fork = cache.fork(length)
        [rows] = engine.forward([Segment(fork, tokens[length:], 40 - length)])
        np.testing.assert_array_equal(rows, expected[length:])


# --- what it costs --------------------------------------------------------------------------------


def test_a_cache_holds_two_states_and_the_rows_that_it_may_need(tiny: TinyModels) -> None:
    engine = NativeEngine(ModelFile(tiny.path("qwen35", "Q4_0", None)), threads=1)
    state, row = engine.state_bytes, engine.row_bytes
    assert state == 2 * 4 * 80 * 80 * 4  # layers, heads, keys, values, float
    assert row == 2 * (2 * 2 * 80 + 4 * 80 + 2 * 16) * 4
    cache = engine.new_cache()
    assert engine.cache_bytes == 0

    def beside_pages() -> int:
        return engine.cache_bytes - engine.page_bytes

    engine.forward([Segment(cache, [1] * 50, 0)])
    assert beside_pages() == 2 * state + 4 * row  # three before the floor, one after it
    for _ in range(3):
        engine.forward([Segment(cache, [1], 1)])
        assert beside_pages() == 2 * state + 4 * row
    engine.forward([Segment(cache, [1] * 5, 5)])
    assert beside_pages() == 2 * state + 8 * row
    assert cache.bytes == engine.cache_bytes
    fork = cache.fork(cache.length)
    cache.keep()
    assert beside_pages() == 2 * state + 8 * row, "forks and kept places share"
    engine.forward([Segment(fork, [1], 1)])
    assert beside_pages() == engine.page_bytes + 3 * state + 9 * row
    del fork
    gc.collect()
    engine.forward([Segment(cache, [1] * 6, 1)])
    assert beside_pages() == 3 * state + 7 * row  # the kept place has one, and its three rows
    cache.truncate(0)
    assert engine.cache_bytes == 0


def test_states_without_memory_are_refused_and_change_nothing(tiny: TinyModels) -> None:
    model = tiny.engine("qwen35", "Q4_0")._model
    probe = _core.Engine(model, "", 1, _core.CacheType.F16, 0)
    budget = 2 * probe.page_bytes + 3 * probe.state_bytes + 9 * probe.row_bytes
    engine = _core.Engine(model, "", 1, _core.CacheType.F16, budget)
    first, second = engine.new_cache(100), engine.new_cache(100)
    engine.forward([Segment(first, [1, 2, 3], 1)])
    with pytest.raises(OutOfMemoryError, match="inputs of recurrent layers"):
        engine.forward([Segment(first, [4], 1), Segment(second, [1] * 9, 9)])
    assert (first.length, second.length, second.floor) == (3, 0, 0)
    rows = engine.forward([Segment(first, [4], 1), Segment(second, [1, 2, 3, 4], 4)])
    np.testing.assert_array_equal(rows[0], rows[1][3:])


# --- arithmetic -----------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["qwen35", "qwen3next"])
@pytest.mark.parametrize(("heads", "width"), [((1, 1), 16), ((3, 6), 48), ((2, 2), 144)])
def test_delta_nets_of_any_shape_are_the_definition(
    tiny: TinyModels, family: Family, heads: tuple[int, int], width: int
) -> None:
    n_key, n_value = heads
    shape = replace(TINY[family], n_key_head=n_key, n_value_head=n_value, state_dim=width)
    tokens = random_tokens(300, 24, 1)
    theirs = log_softmax(Reference(tiny.path(family, "F32", shape)).logits(tokens))
    rows = [
        Session(tiny.engine(family, "F32", isa=isa, shape=shape)).forward(tokens) for isa in ISAS
    ]
    for other in rows[1:]:
        np.testing.assert_array_equal(rows[0], other)
    ours = log_softmax(rows[0])
    assert (np.exp(theirs) * (theirs - ours)).sum(axis=1).mean() < LIMIT


# --- what a file says -----------------------------------------------------------------------------


def regroup(raw: RawGguf) -> None:
    """Make of a file of qwen3next what older converters wrote: ``ssm_in``, by key heads."""
    n_k, n_v, width = (TINY["qwen3next"].n_key_head, TINY["qwen3next"].n_value_head, 48)
    for layer in (0, 2):
        mixed = raw.tensors.pop(f"blk.{layer}.attn_qkv.weight".encode())
        gate = raw.tensors.pop(f"blk.{layer}.attn_gate.weight".encode())
        rows = np.frombuffer(mixed.data + gate.data, np.uint8)
        rows = rows.reshape((2 * n_k + 2 * n_v) * width, -1)
        cuts = [n_k * width, 2 * n_k * width, (2 * n_k + n_v) * width]
        parts = [part.reshape(n_k, -1) for part in np.split(rows, cuts)]
        data = np.concatenate(parts, axis=1).tobytes()
        dims = [mixed.dims[0], mixed.dims[1] + gate.dims[1]]
        raw.tensors[f"blk.{layer}.ssm_in.weight".encode()] = RawTensor(dims, mixed.kind, data)


@pytest.mark.parametrize("fmt", ["F32", "Q4_0", "Q8_0"])
def test_weights_by_key_head_are_the_same_weights(
    workshop: Workshop, tiny: TinyModels, fmt: str
) -> None:
    tokens = random_tokens(300, 40)
    expected = tiny.engine("qwen3next", fmt)
    raw = RawGguf.read(tiny.path("qwen3next", fmt))
    regroup(raw)
    engine = workshop.engine(raw)
    rows = Session(expected).forward(tokens)
    np.testing.assert_array_equal(Session(engine).forward(tokens), rows)
    assert engine.weight_bytes == expected.weight_bytes


def test_weights_by_key_head_are_the_definition(workshop: Workshop) -> None:
    raw = workshop.raw("qwen3next")
    regroup(raw)
    assert workshop.distance(raw) < LIMIT
    raw.tensors[b"blk.0.attn_gate.weight"] = raw.tensors[b"blk.0.ssm_ba.weight"]
    message = workshop.complaint(raw)
    assert "'blk.0.attn_gate.weight' is not part of the qwen3next models" in message


@pytest.mark.parametrize("name", ["ssm_ba", "ssm_in"])
def test_groups_of_another_size_are_refused(workshop: Workshop, name: str) -> None:
    raw = workshop.raw("qwen3next")
    regroup(raw)
    tensor = raw.tensors[f"blk.2.{name}.weight".encode()]
    rows = tensor.dims[1]
    for dims in ([96, rows - 1], [96 * rows], [48, 2 * rows]):
        tensor.dims = dims
        assert f"'blk.2.{name}.weight' is " in workshop.complaint(raw)


def test_the_file_may_say_which_layers_are_recurrent(workshop: Workshop) -> None:
    raw = workshop.raw("qwen35")
    tokens = random_tokens(300, 30)
    expected = Session(workshop.engine(raw)).forward(tokens)
    raw.set("qwen35.full_attention_interval", 7)
    raw.set("qwen35.attention.recurrent_layers", np.array([True, False, True]))
    np.testing.assert_array_equal(Session(workshop.engine(raw)).forward(tokens), expected)
    raw.set("qwen35.attention.recurrent_layers", np.array([True, False]))
    assert "recurrent_layers" in workshop.complaint(raw)


@pytest.mark.parametrize("family", ["qwen35", "qwen3next"])
def test_blocks_that_predict_further_tokens_are_left_out(workshop: Workshop, family: str) -> None:
    raw = workshop.raw(family)
    tokens = random_tokens(300, 30)
    expected = Session(workshop.engine(raw)).forward(tokens)
    raw.set(f"{family}.block_count", 4)
    raw.set(f"{family}.nextn_predict_layers", 1)
    for name in ("attn_norm.weight", "nextn.eh_proj.weight", "nextn.enorm.weight"):
        raw.tensors[f"blk.3.{name}".encode()] = raw.tensors[b"blk.1.attn_norm.weight"]
    np.testing.assert_array_equal(Session(workshop.engine(raw)).forward(tokens), expected)
    raw.tensors[b"blk.4.attn_norm.weight"] = raw.tensors[b"blk.1.attn_norm.weight"]
    message = f"'blk.4.attn_norm.weight' is not part of the {family} models"
    assert message in workshop.complaint(raw)
    raw.set(f"{family}.nextn_predict_layers", 4)
    assert "nextn_predict_layers" in workshop.complaint(raw)


def test_a_convolution_with_a_window_of_attention(workshop: Workshop) -> None:
    raw = workshop.raw("lfm2")
    plain = Session(workshop.engine(raw)).forward(random_tokens(300, 40))
    raw.set("lfm2.attention.sliding_window", 300)
    wide = Session(workshop.engine(raw)).forward(random_tokens(300, 40))
    np.testing.assert_array_equal(plain, wide)
    raw.set("lfm2.attention.sliding_window", 8)
    narrow = Session(workshop.engine(raw)).forward(random_tokens(300, 40))
    assert not np.array_equal(plain, narrow)


@pytest.mark.parametrize(
    ("family", "key", "value", "says"),
    [
        ("qwen35", "ssm.inner_size", 300, "ssm.inner_size"),
        ("qwen35", "ssm.group_count", 3, "value heads of a delta net is 4"),
        ("qwen35", "ssm.conv_kernel", 9, "taps of a convolution is 9"),
        ("qwen35", "ssm.conv_kernel", 3, "ssm_conv1d.weight' is 640 x 4, expected 640 x 3"),
        ("qwen35", "rope.dimension_sections", np.array([2, 3, 2, 0], np.int32), "8 pairs"),
        ("qwen35", "rope.dimension_sections", 3, "8 pairs"),
        ("qwen3next", "ssm.group_count", 4, "is 6; multiples of 4 up to"),
        ("qwen3next", "ssm.group_count", 7, "value heads of a delta net is 6"),
        ("qwen3next", "ssm.group_count", 3, "ssm_in.weight' is 768 x 96, expected 864 x 96"),
        ("qwen3next", "ssm.state_size", 2**20, "ssm.inner_size"),
        ("qwen3next", "expert_count", 0, "expert_count"),
        ("lfm2", "shortconv.l_cache", 9, "taps of a convolution"),
        ("lfm2", "attention.head_count_kv", np.array([0, -1, 0], np.int32), "head_count_kv"),
        ("lfm2", "attention.head_count_kv", np.array([0, 0, 0], np.int32), "attention"),
    ],
)
def test_implausible_recurrent_layers_are_refused(
    workshop: Workshop, family: str, key: str, value: object, says: str
) -> None:
    raw: RawGguf = workshop.raw(family)
    if family == "qwen3next":
        regroup(raw)
    raw.set(f"{family}.{key}", value)  # type: ignore[arg-type]
    assert says in workshop.complaint(raw)
