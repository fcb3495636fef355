"""Thinking is told from answers, however the text is cut into pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from maglio.cli.thinking import ThinkingSplitter

PIECES = st.sampled_from(["<think>", "</think>", "<", "<th", "ink>", "</", "a", "\n", "think>"])


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


def test_blocks_are_thinking_with_their_tags():
    parts = split(["one <thi", "nk>two</think> three"], False)
    assert joined(parts, True) == "<think>two</think>"
    assert joined(parts, False) == "one  three"


def test_a_block_may_begin_in_the_prompt_or_never_end():
    assert split(["two</think>three"], True) == [("two</think>", True), ("three", False)]
    assert joined(split(["one<think>two"], False), True) == "<think>two"
