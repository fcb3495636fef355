"""Tells the thinking of a reasoning model from its answer, as the text comes. Knows text only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

_TAGS = {"<think>": "</think>", "<|channel>thought": "<channel|>"}
"""How blocks begin and end; those of Gemma 4 in its own way."""


class ThinkingSplitter:
    """Splits streamed text after its thinking: the block that it begins with, if it does.

    A tag further on is what the model writes about, not a block. Text is held back only
    while it could still become a tag.

    Args:
        thinking: whether the text begins inside a block, its ``<think>`` being in the prompt.
    """

    def __init__(self, *, thinking: bool = False) -> None:
        self._place: Literal["before", "inside", "after"] = "inside" if thinking else "before"
        self._held = ""
        self._end = _TAGS["<think>"]

    def push(self, text: str) -> Iterator[tuple[str, bool]]:
        """Take more text; yield pieces, and whether each is thinking. Tags belong to it."""
        text, self._held = self._held + text, ""
        if self._place == "before":
            rest = text.lstrip()
            blank = text[: len(text) - len(rest)]
            begin = next((tag for tag in _TAGS if rest.startswith(tag)), None)
            if begin is not None:
                self._place, self._end = "inside", _TAGS[begin]
                yield from _piece(blank, False)
                text = rest
            elif any(tag.startswith(rest) for tag in _TAGS):
                text, self._held = blank, rest
            else:
                self._place = "after"
        if self._place == "inside":
            thought, end, text = text.partition(self._end)
            if end:
                self._place = "after"
            else:
                held = _n_held(thought, self._end)
                thought, self._held = thought[: len(thought) - held], thought[len(thought) - held :]
            yield from _piece(thought + end, True)
        yield from _piece(text, False)

    def flush(self) -> Iterator[tuple[str, bool]]:
        """Yield what was held back, as the text ends here."""
        text, self._held = self._held, ""
        yield from _piece(text, self._place == "inside")


def _n_held(text: str, tag: str) -> int:
    """How many characters at the end of ``text`` could begin the tag."""
    longest = min(len(tag) - 1, len(text))
    return next((n for n in range(longest, 0, -1) if tag.startswith(text[-n:])), 0)


def _piece(text: str, thinking: bool) -> Iterator[tuple[str, bool]]:
    if text:
        yield text, thinking
