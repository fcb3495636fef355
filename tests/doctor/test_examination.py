"""Each way in which an engine can break its promise is found, and a sound one is cleared."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from maglio.doctor.examination import Setting, examine
from maglio.doctor.machine_facts import MachineFacts
from maglio.doctor.model_facts import ModelFacts
from maglio.doctor.verdict import advice, verdict
from maglio.engine.trial import Comparison
from maglio.engine.trials import CONTEXTS, most_tokens
from maglio.errors import InvalidArgumentError, OutOfMemoryError
from support.toy_engine import ToyCache, ToyEngine

SETTING = Setting(threads=2, kv_cache="f16")


TOGETHER, IN_Q8_0 = "2 to 32 rows at a time", "with the KV cache in q8_0"


class Tokenizer:
    def encode(self, text):
        return [ord(character) % 60 for character in text]


class Broken(ToyEngine):
    """An engine that adds ``error`` to rows where its ``breaks`` says so."""

    error = 1e-5
    threads = 2
    kv_cache = "f16"

    def breaks(self, batch, segment):
        return False

    def forward(self, batch):
        wrong = [self.breaks(batch, segment) for segment in batch]
        rows = super().forward(batch)
        return [r + np.float32(self.error) if w else r for r, w in zip(rows, wrong, strict=True)]


class ByWidth(Broken):
    def breaks(self, batch, segment):
        return len(segment.tokens) > 8


class ByNeighbours(Broken):
    def breaks(self, batch, segment):
        return len(batch) > 2


class InLongContexts(Broken):
    def breaks(self, batch, segment):
        return len(segment.tokens) > 1 and segment.cache.length > 300


class StainedCache(ToyCache):
    """Remembers that something was cut off."""

    stained = False

    def truncate(self, length):
        self.stained = self.stained or length < self.length
        return super().truncate(length)


class StainedByCuts(Broken):
    def new_cache(self):
        return StainedCache(self)

    def breaks(self, batch, segment):
        return getattr(segment.cache, "stained", False)


class SharingCache(ToyCache):
    """A fork of it is itself, in part."""

    def fork(self, length):
        fork = super().fork(length)
        fork.tokens = self.tokens
        return fork


class SharedForks(Broken):
    def new_cache(self):
        return SharingCache(self)


class ByThreads(Broken):
    def breaks(self, batch, segment):
        return self.threads == 3


class ByKvCache(Broken):
    def breaks(self, batch, segment):
        return self.kv_cache == "q8_0" and len(segment.tokens) > 1


class Failing(Broken):
    def breaks(self, batch, segment):
        if len(batch) > 1:
            raise OutOfMemoryError("no memory for two")
        return False


class NotANumber(ByWidth):
    error = np.nan


def opener(engine_class, **changed):
    def open_model(setting):
        engine = engine_class(60, n_ctx=changed.get("n_ctx", 700), order=40)
        engine.exactness = changed.get("exactness", "bitwise")
        engine.is_hybrid = changed.get("is_hybrid", False)
        engine.can_rewind = changed.get("can_rewind", True)
        engine.threads, engine.kv_cache = setting.threads, setting.kv_cache
        return SimpleNamespace(engine=engine, tokenizer=Tokenizer(), promised=engine.exactness)

    return open_model


def examined(engine_class, **changed):
    return examine(opener(engine_class, **changed), SETTING, most_threads=3)


def broken(found):
    return {(trial.name, trial.context) for trial in found.trials if not trial.bitwise}


@pytest.mark.parametrize("is_hybrid", [False, True])
@pytest.mark.parametrize("can_rewind", [False, True])
def test_a_sound_engine_is_cleared(is_hybrid, can_rewind):
    found = examined(Broken, is_hybrid=is_hybrid, can_rewind=can_rewind)
    assert found.bitwise
    assert not found.broken
    assert {trial.name for trial in found.trials} == {
        "2 to 32 rows at a time",
        "beside other streams",
        "after a cut",
        "in a fork",
        "with 1 thread",
        "with 3 threads",
        "with the KV cache in q8_0",
    }
    assert all(trial.rows >= 8 and trial.largest == trial.flips == 0 for trial in found.trials)
    assert verdict(found).startswith("All ")


@pytest.mark.parametrize(
    ("engine_class", "where"),
    [
        (ByWidth, {(TOGETHER, n) for n in CONTEXTS} | {(IN_Q8_0, 64)}),
        (ByNeighbours, {("beside other streams", n) for n in CONTEXTS}),
        (StainedByCuts, {("after a cut", n) for n in CONTEXTS}),
        (SharedForks, {("in a fork", n) for n in CONTEXTS}),
        (ByThreads, {("with 3 threads", 64)}),
        (ByKvCache, {(IN_Q8_0, 64)}),
    ],
)  # fmt: skip
def test_a_broken_promise_is_found_where_it_is_broken(engine_class, where):
    found = examined(engine_class)
    assert broken(found) == where
    assert found.broken
    assert "promises rows that are the same to the bit, and broke it" in verdict(found)


def test_what_only_long_contexts_break_is_found_there():
    found = examined(InLongContexts)
    assert {context for _, context in broken(found)} == {512}


def test_an_engine_that_promises_less_is_not_broken_by_rounding():
    found = examined(ByWidth, exactness="distribution")
    assert not found.bitwise
    assert not found.broken
    assert "The engine promises no more" in verdict(found)
    [trial, *_] = found.trials
    assert 0 < trial.largest < 2e-5
    assert trial.flips == 0


def test_an_engine_that_promises_less_and_keeps_more_is_told_so():
    found = examined(Broken, exactness="distribution")
    assert "though the engine does not promise it" in verdict(found)


def test_what_an_engine_raises_is_a_finding():
    found = examined(Failing, exactness="distribution")
    assert {name for name, _ in broken(found)} == {"beside other streams"}
    assert found.broken
    assert "failed beside other streams: no memory for two" in verdict(found)


def test_what_is_not_a_number_is_an_infinite_difference():
    found = examined(NotANumber)
    assert found.trials[0].largest == np.inf


def test_a_short_context_is_tried_as_far_as_it_goes():
    found = examined(Broken, n_ctx=most_tokens(64))
    assert {trial.context for trial in found.trials} == {64}
    with pytest.raises(InvalidArgumentError, match="too short to try anything"):
        examined(Broken, n_ctx=most_tokens(64) - 1)


def test_one_model_is_open_at_a_time():
    import weakref

    opened = []
    inner = opener(Broken)

    def open_model(setting):
        assert all(engine() is None for engine in opened)
        model = inner(setting)
        opened.append(weakref.ref(model.engine))
        return model

    examine(open_model, SETTING, most_threads=3)
    assert len(opened) == 4


def test_differences_are_counted_by_bit_size_and_choice():
    expected = np.array([[0.0, 1.0], [2.0, 1.0]], np.float32)
    found = Comparison()
    found.add(np.array([[-0.0, 1.0], [2.0, 2.5]], np.float32), expected)
    trial = found.trial("a trial", 3)
    assert (trial.rows, trial.equal, trial.flips, trial.largest) == (2, 0, 1, 1.5)
    assert not trial.bitwise


FACTS = MachineFacts(
    processor="a processor", architecture="x86_64", isas=("avx2", "portable"), isa="avx2",
    processors=8, cores=2, cgroup_cores=None, memory=10_000_000_000, cgroup_memory=None, load=0.1,
    memory_rate=None, product_rate=None, not_measured="", versions={}, engines=("native",),
)  # fmt: skip
MODEL = ModelFacts(
    path="m.gguf", bytes=1_000_000_000, architecture="llama", context_length=32768,
    weight_bytes=1_000_000_000, cache_bytes=4_000_000_000,
)  # fmt: skip


def hints(facts=(), found=(), model=()):
    import dataclasses

    sound = dataclasses.replace(
        examined(Broken), probed=True, load_s=3.0, again_s=1.0, threads=2, kv_cache="q8_0"
    )
    return list(
        advice(
            dataclasses.replace(FACTS, **dict(facts)),
            dataclasses.replace(sound, **dict(found)),
            dataclasses.replace(MODEL, **dict(model)),
        )
    )


def test_where_all_is_well_nothing_is_advised():
    assert hints() == []


@pytest.mark.parametrize(
    ("facts", "found", "model", "what"),
    [
        ({"isa": "portable"}, {}, {}, "MAGLIO_ISA is portable; without it avx2 is used"),
        ({"load": 7.0}, {}, {}, "Other programs keep the 2 cores busy"),
        ({}, {"threads": 4}, {}, "number of threads is 4"),
        ({}, {"threads": 1}, {}, "number of threads is 1"),
        ({}, {"probed": False}, {}, "run maglio probe m.gguf"),
        ({}, {"can_rewind": False}, {}, "nothing is drafted"),
        ({}, {"load_s": 9.0}, {}, "The file was read at about 125 MB/s"),
        ({}, {"kv_cache": "f16"}, {}, "--kv-cache q8_0 takes about half"),
    ],
)
def test_a_setting_that_would_help_is_named(facts, found, model, what):
    [hint] = hints(facts, found, model)
    assert what in hint
