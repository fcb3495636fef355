"""The guesses of an index: where a copy left off, and where the longest match goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from maglio.draft.member import Guess


class Index(Protocol):
    """What both native indexes answer."""

    @property
    def match_length(self) -> int:
        """Tokens that match."""
        ...

    @property
    def place_agreed(self) -> int:
        """Tokens that agree up to where a copy left off."""
        ...

    def weighed_draft(self, limit: int) -> tuple[list[int], bytes]:
        """What follows the match, and the evidence for it."""
        ...

    def weighed_draft_in_place(self, limit: int) -> tuple[list[int], bytes]:
        """What follows where a copy left off, and the evidence for it."""
        ...


def in_place_first(kind: str, index: Index, limit: int) -> Sequence[Guess]:
    """Both guesses, the one in place first; only that one where they are the same.

    Where a copy left off counts one token more as agreeing, since that may be all there is: the
    guess that one token was replaced.

    Args:
        kind: of the guess by match; ``in place`` is added for the other.
        index: the index.
        limit: most tokens of a guess.
    """
    found: list[Guess] = []
    tokens, evidence = index.weighed_draft_in_place(limit)
    if tokens:
        found.append(Guess(f"{kind} in place", 1 + index.place_agreed, tokens, evidence))
    found += [guess for guess in by_match(kind, index, limit) if guess.tokens != tokens]
    return found


def by_match(kind: str, index: Index, limit: int) -> Sequence[Guess]:
    """Where the longest match goes on, if there is one."""
    tokens, evidence = index.weighed_draft(limit)
    return (Guess(kind, index.match_length, tokens, evidence),) if tokens else ()
