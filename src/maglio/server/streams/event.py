"""What a running request tells whoever asked for it. Values."""

from __future__ import annotations

from dataclasses import dataclass

from maglio.generation import Generation, TextToken


@dataclass(frozen=True, slots=True)
class Began:
    """The request is running.

    Attributes:
        prompt_tokens: tokens of its prompt.
        cached_tokens: how many of them were computed before.
    """

    prompt_tokens: int
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class Wrote:
    """A forward has given tokens.

    Attributes:
        tokens: the tokens, in order.
        drafted: draft tokens that this forward verified for the request.
        accepted: how many of them were accepted.
    """

    tokens: tuple[TextToken, ...]
    drafted: int
    accepted: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The request has ended. Nothing follows.

    Attributes:
        generation: all of it; with its error if it failed.
    """

    generation: Generation


Event = Began | Wrote | Ended
