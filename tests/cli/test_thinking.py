"""Thinking is told from answers, however the text is cut into pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from maglio.cli.thinking import ThinkingSplitter

WITH_TAGS = ["<think>", "</think>", "<", "<th", "ink>", "</", "a", "\n", "think>"]
WITH_CHANNELS = ["<|channel>thought", "<|chan", "nel>", "thought", "<channel|>", "<chan", "nel|>"]
PIECES = st.sampled_from([*WITH_TAGS, *WITH_CHANNELS])


def split(pieces, thinking):
    splitter = ThinkingSplitter(thinking=thinking)
    parts = [part for piece in pieces for part in splitter.push(piece)]
    parts += splitter.flush()
    return parts


def joined(parts, wanted):
    return "".join(text for text, thinking in parts if thinking == wanted)


@given(st.lists(PIECES, max_size=12), st.booleans())
def test_pieces_do_not_matter_and_nothing_is_lost(pieces, thinking):
    text = "".join(pieces)
    parts = split(pieces, thinking)
    whole = split([text], thinking)
    assert "".join(piece for piece, _ in parts) == text
    assert [joined(parts, w) for w in (False, True)] == [joined(whole, w) for w in (False, True)]


def test_a_block_that_comes_first_is_thinking_with_its_tags():
    parts = split([" \n<thi", "nk>two</th", "ink> three"], False)
    assert joined(parts, True) == "<think>two</think>"
    assert joined(parts, False) == " \n three"


def test_gemma_4_thinks_in_a_channel():
    parts = split(["<|channel>", "thought\ntwo</think><chan", "nel|>three<channel|>"], False)
    assert joined(parts, True) == "<|channel>thought\ntwo</think><channel|>"
    assert joined(parts, False) == "three<channel|>"
    assert split(["<|channel>final"], False) == [("<|channel>final", False)]


def test_a_tag_further_on_is_what_the_answer_is_about():
    for text in ("Use <think> to think</think> aloud.", "<thin <think>a", "a</think>b"):
        assert split([text], False) == [(text, False)]
    parts = split(["<think>a</think>b<think>c</think>"], False)
    assert joined(parts, True) == "<think>a</think>"
    assert joined(parts, False) == "b<think>c</think>"


def test_a_block_may_begin_in_the_prompt_or_never_end():
    assert split(["two</think>three"], True) == [("two</think>", True), ("three", False)]
    assert joined(split(["<think>two</thi"], False), True) == "<think>two</thi"
    assert split(["<thi"], False) == [("<thi", False)]
