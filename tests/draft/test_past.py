"""Later streams draft from earlier ones."""

from __future__ import annotations

from array import array
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from maglio.draft.past import History
from maglio.draft.registry import Setting, calibrated
from maglio.draft.source import DraftSource
from maglio.economics.cost import NATIVE_COST
from maglio.errors import InvalidArgumentError, MaglioError
from support.cascades import prompt, proposed

TEXT = list(range(10, 40))


def source_after(history: History | None) -> DraftSource:
    return calibrated()(Setting(n_vocab=50, cost=NATIVE_COST, history=history))


def test_a_stream_drafts_what_an_earlier_one_said():
    past = History()
    past.add(TEXT)
    later = source_after(past)
    later.observe(prompt(TEXT[:12]))
    name, draft = proposed(later, 8)
    assert name == "history"
    assert draft == TEXT[12 : 12 + len(draft)] != []
    assert list(later.parts()) == ["conversation", "history"]


def test_without_a_history_streams_know_nothing_of_each_other():
    source_after(None).observe(prompt(TEXT))
    later = source_after(None)
    later.observe(prompt(TEXT[:12]))
    assert proposed(later, 8) is None
    assert list(later.parts()) == ["conversation"]


def test_a_stream_that_reads_a_history_does_not_write_to_it():
    past = History()
    source_after(past).observe(prompt(TEXT))  # whoever drives the stream decides what is kept
    assert len(past) == 0
    assert past.index() is None


def test_what_streams_taught_is_kept_for_greedy_and_for_sampled_ones_apart():
    past = History()
    for greedy in (True, False):
        setting = Setting(n_vocab=50, cost=NATIVE_COST, greedy=greedy, history=past)
        source = calibrated()(setting)
        source.observe(prompt([1, 2, 1]))
        source.propose([], 1)
        learnt = {name for name in (True, False) if list(past.calibrations(greedy=name).all())}
        assert learnt == ({True} if greedy else {True, False})
    assert past.calibrations(greedy=True) is not past.calibrations(greedy=False)


def test_the_oldest_streams_are_forgotten_first():
    past = History(max_tokens=20)
    for begin in (0, 10, 20):
        past.add(range(begin, begin + 10))
    kept = past.index()
    assert len(kept) == len(past) == 20
    cursor = kept.cursor()
    cursor.advance(5)
    assert cursor.match_length == 0
    cursor.advance(15)
    assert cursor.draft(2) == [16, 17]


def test_a_long_stream_is_kept_by_its_end():
    past = History(max_tokens=5)
    past.add(range(30))
    cursor = past.index().cursor()
    cursor.advance(27)
    assert cursor.draft(9) == [28, 29]
    assert len(past.index()) == len(past) == 5


def test_a_stream_that_is_added_in_parts_is_one():
    past = History()
    for begin in range(0, 30, 7):
        past.add(TEXT[begin : begin + 7])
    cursor = past.index().cursor()
    cursor.advance(12)
    assert cursor.draft(9) == list(range(13, 22))


def test_the_index_is_rebuilt_when_it_lacks_more_than_an_eighth():
    past = History()
    assert past.index() is None
    past.add([])
    assert past.index() is None
    past.add(TEXT)
    first = past.index()
    assert len(first) == 30
    past.add([3, 3, 3])
    assert past.index() is first
    past.add([3])
    assert len(past.index()) == 34


def test_what_is_forgotten_counts_as_said():
    past = History(max_tokens=16)
    for _ in range(20):
        past.add(range(8))
        before = past.index()
        past.add(range(8))
        assert past.index() is not before
        assert len(past.index()) <= 16


@pytest.mark.parametrize("kind", [list, lambda t: array("i", t), lambda t: np.array(t, np.int32)])
def test_what_was_added_is_the_historys_own(kind):
    past = History()
    stream = kind(TEXT)
    past.add(stream)
    stream[12:] = kind([3] * 18)
    if not isinstance(stream, np.ndarray):
        stream.append(3)  # an exported buffer would refuse this
    cursor = past.index().cursor()
    cursor.advance(20)
    assert cursor.draft(3) == [21, 22, 23]


@pytest.mark.parametrize("bad", [[1, -1], [2**31], [1.5], ["x"], np.array([[1, 2]])])
def test_what_is_no_token_is_refused_and_not_kept(bad):
    past = History()
    with pytest.raises(InvalidArgumentError, match="tokens"):
        past.add(bad)
    assert len(past) == 0


@pytest.mark.parametrize("bad", [0, -1, 1.0, True, 2**40])
def test_a_history_must_hold_something(bad):
    with pytest.raises(InvalidArgumentError, match="max_tokens"):
        History(max_tokens=bad)


def test_streams_may_join_from_several_threads():
    past = History(max_tokens=500)

    def join():
        for _ in range(200):
            past.add(range(10))
            past.index()

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(join) for _ in range(4)]:
            done.result()
    assert len(past) == 500
    assert 450 <= len(past.index()) <= 500


class Store:
    """Keeps tokens in a list, until it fails."""

    def __init__(self, tokens=(), *, fails: bool = False) -> None:
        self.kept = list(tokens)
        self.calls = 0
        self._fails = fails

    def tokens(self):
        return np.array(self.kept, dtype=np.int32)

    def add(self, tokens) -> None:
        self.calls += 1
        if self._fails:
            raise MaglioError("the disk is full")
        self.kept += tokens.tolist()


def test_a_store_gives_back_what_earlier_processes_said_and_keeps_the_rest():
    store = Store(TEXT[:20])
    past = History(store=store)
    assert len(past) == 20
    assert store.calls == 0  # what came from it does not go there again
    past.add(TEXT[20:])
    assert store.kept == TEXT
    cursor = past.index().cursor()
    cursor.advance(29)
    assert cursor.draft(2) == [30, 31]


def test_a_store_that_fails_is_left_alone():
    store = Store(fails=True)
    past = History(store=store)
    with pytest.warns(RuntimeWarning, match="the disk is full"):
        past.add(TEXT)
    past.add([1])
    assert store.calls == 1
    assert len(past) == 31
