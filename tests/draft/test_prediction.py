"""A predicted text drafts from where it is expected to go on, and finds its place again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio.draft.prediction import PredictedText, PredictionMember
from maglio.draft.registry import Setting, calibrated
from maglio.draft.source import Step
from maglio.economics.cost import FLAT_COST
from maglio.errors import InvalidArgumentError

TEXT = list(range(100, 160))


def array(tokens) -> np.ndarray:
    return np.array(tokens, dtype=np.int32)


def member(text=TEXT, *, prompt=3, answer=()) -> PredictionMember:
    made = PredictionMember(PredictedText(array(text)), prompt)
    made.follow(array([1] * prompt))
    made.follow(array(list(answer)))
    return made


def test_nothing_is_drafted_before_the_answer():
    made = PredictionMember(PredictedText(array(TEXT)), 3)
    made.follow(array([1, 1]))
    assert made.match_length == 0
    assert made.draft(5) == []
    made.follow(array([1]))
    assert made.draft(5) == TEXT[:5]


def test_a_prompt_that_holds_the_text_does_not_move_it():
    made = PredictionMember(PredictedText(array(TEXT)), len(TEXT))
    made.follow(array(TEXT))
    assert made.draft(3) == TEXT[:3]


def test_it_goes_on_where_the_answer_is():
    assert member(answer=TEXT[:10]).draft(4) == TEXT[10:14]
    assert member(answer=TEXT[:10]).match_length == 11
    assert member(answer=TEXT).draft(4) == []


def test_after_a_replaced_token_it_goes_on_behind_it():
    made = member(answer=[*TEXT[:10], 7])
    assert made.draft(3) == TEXT[11:14]
    made.follow(array(TEXT[11:13]))
    assert made.draft(3) == TEXT[13:16]


def test_after_an_insertion_it_is_found_again():
    made = member(answer=[*TEXT[:10], 7, 8, 9])
    assert made.match_length == 0
    made.follow(array(TEXT[10:12]))
    assert made.draft(3) == TEXT[12:15]


def test_after_a_deletion_it_is_found_again():
    made = member(answer=[*TEXT[:10], *TEXT[30:32]])
    assert made.draft(3) == TEXT[32:35]


def test_of_equal_places_the_nearest_ahead_is_taken_and_the_longest_agreement_before_it():
    line = [50, 51]
    text = [*line, 1, *line, 2, *line, 3, *line, 4]
    made = PredictionMember(PredictedText(array(text)), 0)
    made.follow(array([*line, 1, 99, 98, *line]))
    assert made.draft(1) == [2]
    made.follow(array([97, 96, *line]))  # the line after that one
    assert made.draft(1) == [3]
    made.follow(array([95, 1, *line]))  # one that was said before agrees in a token more
    assert made.draft(1) == [2]


tokens = st.integers(1, 6)


@settings(max_examples=200, deadline=None)
@given(
    text=st.lists(tokens, min_size=1, max_size=40),
    stream=st.lists(tokens, max_size=60),
    prompt=st.integers(0, 10),
    cuts=st.lists(st.integers(0, 60), max_size=4),
)
def test_rewound_it_is_as_if_nothing_else_had_been(text, stream, prompt, cuts):
    made = PredictionMember(PredictedText(array(text)), prompt)
    followed = stream
    made.follow(array(followed))
    for cut in cuts:
        followed = followed[:cut]
        made.rewind(array(followed))
        more = stream[: cut // 3]
        made.follow(array(more))
        followed = [*followed, *more]
    fresh = PredictionMember(PredictedText(array(text)), prompt)
    for token in followed:  # one by one or many at once
        fresh.follow(array([token]))
    assert made.guesses(9) == fresh.guesses(9)
    assert made.match_length == fresh.match_length
    drafted = made.draft(9)
    assert [guess.tokens for guess in made.guesses(9)] == ([drafted] if drafted else [])
    assert all(len(guess.evidence) == len(drafted) for guess in made.guesses(9))
    assert not drafted or any(text[i : i + len(drafted)] == drafted for i in range(len(text)))


def test_the_policy_drafts_from_it_at_once_and_stops_when_it_is_wrong():
    source = calibrated()(Setting(n_vocab=500, cost=FLAT_COST))
    source.predict(TEXT, begin=2)
    source.observe(Step((3, 4)))
    draft = source.propose([3, 4], 8)
    assert draft is not None
    assert (draft.source, list(draft.tokens)) == ("prediction", TEXT[:8])
    stream = [3, 4]
    for wrong in range(300, 340):
        source.observe(Step((wrong,), fed=(stream[-1],)))
        stream.append(wrong)
    assert source.propose(stream, 8) is None


def test_a_later_prediction_takes_the_place_of_an_earlier_one():
    source = calibrated()(Setting(n_vocab=500, cost=FLAT_COST))
    source.observe(Step((3,)))
    source.predict(TEXT, begin=1)
    source.predict([201, 202], begin=1)
    draft = source.propose([3], 8)
    assert draft is not None
    assert list(draft.tokens) == [201, 202]
    source.predict([], begin=1)
    assert "prediction" not in source.parts()
    with pytest.raises(InvalidArgumentError, match="begin"):
        source.predict(TEXT, begin=0)
    with pytest.raises(InvalidArgumentError, match="prediction"):
        source.predict([500], begin=1)
