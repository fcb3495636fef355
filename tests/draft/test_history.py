"""Later streams draft from earlier ones."""

from __future__ import annotations

from array import array

import pytest

from maglio.draft.cascade import SpeculationIndex
from maglio.draft.history import History
from maglio.draft.options import IndexOptions
from maglio.errors import InvalidArgumentError

TEXT = list(range(10, 40))


def index(history, **options):
    options = IndexOptions(policy="calibrated", recycling=False, **options)
    return SpeculationIndex(50, options=options, history=history)


def test_a_stream_drafts_what_an_earlier_one_said():
    history = History()
    index(history).observe(TEXT)
    later = index(history)
    later.observe(TEXT[:12])
    draft = later.suggest(TEXT[:12], 8)
    assert draft == TEXT[12 : 12 + len(draft)] != []
    assert later.drafted_by == "history"
    later.observe(TEXT[12:16])
    assert later.counts()["history"].accepted == min(4, len(draft))


def test_without_a_history_streams_know_nothing_of_each_other():
    index(None).observe(TEXT)
    later = index(None)
    later.observe(TEXT[:12])
    assert later.suggest(TEXT[:12], 8) == []
    assert list(later.counts()) == ["conversation"]


def test_what_was_learnt_about_a_source_is_kept():
    history = History()
    first = index(history)
    before = list(history.calibration("conversation").hazards())
    for _ in range(20):
        first.observe([1, 2, 3])
        first.suggest([], 8)
    assert history.calibration("conversation").hazards() != before
    second = index(history)
    [member] = [m for m in second._members() if m.name == "conversation"]
    assert member.calibration is history.calibration("conversation")


def test_the_oldest_streams_are_forgotten_first():
    history = History(token_cap=20)
    for begin in (0, 10, 20):
        history.follow(array("i", range(begin, begin + 10)))
    kept = history.index()
    assert len(kept) == 20
    cursor = kept.cursor()
    cursor.advance(5)
    assert cursor.match_length == 0
    cursor.advance(15)
    assert cursor.draft(2) == [16, 17]


def test_a_long_stream_is_kept_by_its_end():
    history = History(token_cap=5)
    history.follow(array("i", range(30)))
    cursor = history.index().cursor()
    cursor.advance(27)
    assert cursor.draft(9) == [28, 29]
    assert len(history.index()) == 5


def test_the_index_is_rebuilt_only_when_something_was_said():
    history = History()
    assert history.index() is None
    stream = array("i", TEXT)
    history.follow(stream)
    first = history.index()
    assert history.index() is first
    stream.append(3)
    assert history.index() is not first


def test_a_history_must_hold_something():
    with pytest.raises(InvalidArgumentError, match="token_cap"):
        History(token_cap=0)
