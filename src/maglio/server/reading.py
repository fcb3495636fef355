"""What a piece of generated text is: so far, always what the model says.

Boundary: the call that :mod:`maglio.server.answer` makes of a reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ReasoningText:
    """Thinking goes on."""

    text: str


@dataclass(frozen=True, slots=True)
class ContentText:
    """The answer goes on."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegan:
    """A call begins."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """The arguments of a call go on."""

    index: int
    text: str


Delta = ReasoningText | ContentText | CallBegan | CallArguments


class Reader(Protocol):
    """Tells thinking, answer and calls apart in the text of one choice."""

    def push(self, text: str) -> list[Delta]:
        """Read on."""
        ...

    def finish(self) -> list[Delta]:
        """The text has ended: what was held back."""
        ...


class PlainReader:
    """All text is the answer."""

    def push(self, text: str) -> list[Delta]:
        """Read on."""
        return [ContentText(text)] if text else []

    def finish(self) -> list[Delta]:
        """Nothing is held back."""
        return []
