"""What an answer is made of as it comes, whatever the dialect it is told in. Values.

Boundary: knows no wire form. ``index`` is the number of the choice, ``call`` that of a call in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from maglio.decode import TokenLogprob
from maglio.server.telemetry.usage import Usage

Reason = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True, slots=True)
class Sourced:
    """A piece of text, and who predicted it: ``model``, or a draft source."""

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class ReasoningText:
    """What the model thinks before it answers."""

    index: int
    text: str
    sources: tuple[Sourced, ...] = ()


@dataclass(frozen=True, slots=True)
class ContentText:
    """What the model says.

    Attributes:
        index: the choice.
        text: what it goes on with.
        sources: the same in the pieces that tokens gave.
        logprobs: of the tokens whose text this is, if the request asked.
    """

    index: int
    text: str
    sources: tuple[Sourced, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class CallBegan:
    """A call of a tool begins."""

    index: int
    call: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """The arguments of a call go on; all of them together are a JSON object."""

    index: int
    call: int
    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """A choice has ended.

    Attributes:
        index: the choice.
        reason: ``tool_calls`` if it ends with calls, ``length`` if it was cut off, else ``stop``.
        usage: what it took.
        stop_text: the stop text that ended it, if one did.
    """

    index: int
    reason: Reason
    usage: Usage
    stop_text: str | None = None


@dataclass(frozen=True, slots=True)
class Forward:
    """A forward gave tokens to a choice; their text comes in other deltas.

    Attributes:
        index: the choice.
        sources: for each token who predicted it.
        drafted: draft tokens that were verified,
        accepted: and how many of them were accepted.
    """

    index: int
    sources: tuple[str, ...]
    drafted: int
    accepted: int


ChatDelta = Forward | ReasoningText | ContentText | CallBegan | CallArguments | Finished


def usage_of(ends: Sequence[Finished]) -> Usage:
    """What all choices of one prompt took together."""
    return Usage.of_one_prompt([end.usage for end in ends])
