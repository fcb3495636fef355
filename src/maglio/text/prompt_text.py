"""A prompt as text, and where in it the control tokens are. A value: knows no template."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PromptText:
    """Text in which only some of what looks like a control token is one.

    Attributes:
        text: the text, as a template wrote it.
        control: the control tokens as (begin, end), ascending.
    """

    text: str = ""
    control: tuple[tuple[int, int], ...] = ()

    def __len__(self) -> int:
        return len(self.text)

    def __add__(self, more: PromptText) -> PromptText:
        shift = len(self.text)
        moved = ((begin + shift, end + shift) for begin, end in more.control)
        return PromptText(self.text + more.text, (*self.control, *moved))

    def head(self, length: int) -> PromptText:
        """The first ``length`` characters; a control token that reaches beyond them is text."""
        n = bisect_left(self.control, length, key=lambda span: span[1])
        n += n < len(self.control) and self.control[n][1] == length
        return PromptText(self.text[:length], self.control[:n])

    def tail(self, begin: int) -> PromptText:
        """What follows the first ``begin`` characters."""
        n = bisect_left(self.control, (begin, begin))
        moved = tuple((first - begin, end - begin) for first, end in self.control[n:])
        return PromptText(self.text[begin:], moved)

    def begins_with(self, other: PromptText) -> bool:
        """Whether it goes on from ``other``: the same text with the same control tokens."""
        length = len(other.text)
        if not self.text.startswith(other.text):
            return False
        n = bisect_left(self.control, (length, length))
        return self.control[:n] == other.control

    @property
    def begins_with_control(self) -> bool:
        """Whether a control token comes first."""
        return bool(self.control) and self.control[0][0] == 0

    def pieces(self) -> Iterator[tuple[str, bool]]:
        """The control tokens and the texts between them, and whether each is a control token."""
        at = 0
        for begin, end in self.control:
            if at < begin:
                yield self.text[at:begin], False
            yield self.text[begin:end], True
            at = end
        if at < len(self.text):
            yield self.text[at:], False
