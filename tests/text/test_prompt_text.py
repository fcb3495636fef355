"""Prompts as text with control tokens in it: cut anywhere and put together they are the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from maglio.text.prompt_text import PromptText

PROMPTS = st.lists(st.tuples(st.text("ab<>", max_size=5), st.booleans()), max_size=6).map(
    lambda pieces: joined(
        PromptText(text, ((0, len(text)),) if control and text else ()) for text, control in pieces
    )
)


def joined(parts):
    whole = PromptText()
    for part in parts:
        whole = whole + part
    return whole


def inside(prompt, place):
    return any(begin < place < end for begin, end in prompt.control)


@given(PROMPTS, st.data())
def test_a_prompt_cut_between_control_tokens_is_whole_again_when_joined(prompt, data):
    places = [i for i in range(len(prompt) + 1) if not inside(prompt, i)]
    place = data.draw(st.sampled_from(places))
    assert prompt.head(place) + prompt.tail(place) == prompt
    assert prompt.begins_with(prompt.head(place))


@given(PROMPTS, st.data())
def test_a_prompt_does_not_go_on_from_one_that_ends_inside_a_control_token(prompt, data):
    places = [i for i in range(len(prompt)) if inside(prompt, i)]
    if places:
        place = data.draw(st.sampled_from(places))
        assert prompt.head(place).text == prompt.text[:place]
        assert not prompt.begins_with(prompt.head(place))


@given(PROMPTS)
def test_pieces_are_the_whole_text(prompt):
    pieces = list(prompt.pieces())
    assert "".join(text for text, _ in pieces) == prompt.text
    assert [text for text, control in pieces if control] == [
        prompt.text[begin:end] for begin, end in prompt.control
    ]
    assert prompt.begins_with_control == bool(pieces and pieces[0][1])


def test_what_looks_the_same_with_other_control_tokens_is_another_beginning():
    assert not PromptText("<s>a", ((0, 3),)).begins_with(PromptText("<s>"))
    assert not PromptText("<s>a").begins_with(PromptText("<s>", ((0, 3),)))
