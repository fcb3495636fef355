"""Tells the thinking of a reasoning model from its answer, as the text comes. Knows text only."""

from __future__ import annotations

from collections.abc import Iterator

_TAGS = ("<think>", "</think>")


class ThinkingSplitter:
    """Splits streamed text at ``<think>`` and ``</think>``.

    Text is held back only while it could still become a tag.

    Args:
        thinking: whether the text begins inside a block, its first tag being in the prompt.
    """

    def __init__(self, *, thinking: bool = False) -> None:
        self._thinking = thinking
        self._held = ""

    def push(self, text: str) -> Iterator[tuple[str, bool]]:
        """Take more text; yield pieces, and whether each is thinking. Tags belong to it."""
        text, self._held = self._held + text, ""
        while text:
            tag = _TAGS[self._thinking]
            before, found, after = text.partition(tag)
            if found:
                yield from self._piece(before + tag if self._thinking else before)
                self._thinking = not self._thinking
                text = after if tag == _TAGS[1] else tag + after
                if tag == _TAGS[0]:
                    yield tag, True
                    text = after
                continue
            hold = next(
                (
                    n
                    for n in range(min(len(tag) - 1, len(text)), 0, -1)
                    if tag.startswith(text[-n:])
                ),
                0,
            )
            self._held = text[len(text) - hold :]
            yield from self._piece(text[: len(text) - hold])
            return

    def flush(self) -> Iterator[tuple[str, bool]]:
        """Yield what was held back, as the text ends here."""
        text, self._held = self._held, ""
        yield from self._piece(text)

    def _piece(self, text: str) -> Iterator[tuple[str, bool]]:
        if text:
            yield text, self._thinking
