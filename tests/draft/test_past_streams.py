"""Later streams draft from earlier ones."""

from __future__ import annotations

from array import array
from concurrent.futures import ThreadPoolExecutor

import pytest

from maglio.draft.cascade import SpeculationIndex
from maglio.draft.options import IndexOptions
from maglio.draft.past_streams import PastStreams
from maglio.errors import InvalidArgumentError

TEXT = list(range(10, 40))


def index(past, **options):
    options = IndexOptions(policy="calibrated", recycling=False, **options)
    return SpeculationIndex(50, options=options, past=past)


def test_a_stream_drafts_what_an_earlier_one_said():
    past = PastStreams()
    index(past).observe(TEXT)
    later = index(past)
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


def test_the_oldest_streams_are_forgotten_first():
    past = PastStreams(token_cap=20)
    for begin in (0, 10, 20):
        past.follow(array("i", range(begin, begin + 10)))
    kept = past.index()
    assert len(kept) == 20
    cursor = kept.cursor()
    cursor.advance(5)
    assert cursor.match_length == 0
    cursor.advance(15)
    assert cursor.draft(2) == [16, 17]


def test_a_long_stream_is_kept_by_its_end():
    past = PastStreams(token_cap=5)
    past.follow(array("i", range(30)))
    cursor = past.index().cursor()
    cursor.advance(27)
    assert cursor.draft(9) == [28, 29]
    assert len(past.index()) == 5


def test_the_index_is_rebuilt_when_it_lacks_more_than_an_eighth():
    past = PastStreams()
    assert past.index() is None
    stream = array("i", TEXT)
    past.follow(stream)
    first = past.index()
    assert len(first) == 30
    stream.extend([3, 3, 3])
    assert past.index() is first
    stream.append(3)
    assert len(past.index()) == 34


def test_what_is_forgotten_counts_as_said():
    past = PastStreams(token_cap=16)
    for _ in range(20):
        past.follow(array("i", range(8)))
        before = past.index()
        past.follow(array("i", range(8)))
        assert past.index() is not before
        assert len(past.index()) <= 16


def test_a_stream_can_grow_while_it_is_indexed():
    past = PastStreams()
    stream = array("i", TEXT)
    past.follow(stream)
    kept = past.index()
    stream.append(3)  # an exported buffer would refuse this
    assert kept.cursor() is not None


def test_a_history_must_hold_something():
    with pytest.raises(InvalidArgumentError, match="token_cap"):
        PastStreams(token_cap=0)


def test_a_stream_that_lost_its_beginning_is_indexed_again():
    past = PastStreams(token_cap=64)
    stream = array("i", range(60))
    past.follow(stream)
    past.index()
    del stream[:-20]
    stream.extend(range(200, 210))
    kept = past.index()
    cursor = kept.cursor()
    cursor.advance(205)
    assert cursor.draft(3) == [206, 207, 208]


def test_streams_may_join_from_several_threads():
    past = PastStreams(token_cap=500)

    def join():
        for _ in range(200):
            past.follow(array("i", range(10)))
            past.index()

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(join) for _ in range(4)]:
            done.result()
    assert 450 <= len(past.index()) <= 500
