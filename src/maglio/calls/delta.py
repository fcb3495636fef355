"""What the text of an answer turns out to be, piece by piece. Values."""

from __future__ import annotations

from dataclasses import dataclass


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
    """A call of a tool begins; ``index`` counts the calls of the answer from 0."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """The arguments of a call go on: all of a call's together are a JSON object."""

    index: int
    text: str


Delta = ReasoningText | ContentText | CallBegan | CallArguments
