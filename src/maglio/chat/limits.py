"""Where answers end, and what becomes of a full context. A value, saved with a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from maglio.checks import MAX_TOKEN_ID, check_choice, check_int
from maglio.generation import Ending
from maglio.text import StopMatcher

OnFull = Literal["stop", "drop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a conversation.

    Attributes:
        max_tokens: most tokens of an answer.
        stop: an answer ends before the first of these texts, besides where the model ends it.
        on_full: what to do when a message does not fit the context: refuse it, or drop turns.

    Raises:
        InvalidArgumentError: a field has a value that can never work.
    """

    max_tokens: int
    stop: Sequence[str]
    on_full: OnFull

    def __post_init__(self) -> None:
        check_int("max_tokens", self.max_tokens, 1, MAX_TOKEN_ID)
        check_choice("on_full", self.on_full, ("stop", "drop"))
        StopMatcher(self.stop)  # checks it
        object.__setattr__(self, "stop", tuple(self.stop))

    def ending(self, also: Sequence[str]) -> Ending:
        """Where an answer ends; ``also`` are stop strings of the model."""
        return Ending(max_tokens=self.max_tokens, stop=(*self.stop, *also))

    def reserve(self, n_ctx: int) -> int | None:
        """The room below which turns are dropped; ``None``: never."""
        return None if self.on_full == "stop" else min(self.max_tokens, n_ctx // 4)
