"""Which source drafts, and how much: the record's fixed rules. Knows members, no stream."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from maglio.draft.member import Member
from maglio.draft.options import IndexOptions


class Choice(NamedTuple):
    """A draft and the member that made it."""

    member: Member
    draft: list[int]


class DraftPolicy(Protocol):
    """Chooses a draft at every step, and hears what came of it."""

    def choose(
        self, matched: Sequence[Member], recycling: Member | None, limit: int
    ) -> Choice | None:
        """The draft to verify, of at most ``limit`` tokens, or ``None`` for a plain step.

        Args:
            matched: the members that may draft by their match, in order of preference.
            recycling: the member to fall back on, if it may draft.
            limit: most draft tokens, at least 1.
        """
        ...

    def begin_turn(self, members: Sequence[Member]) -> None:
        """A prompt came after an answer: the next answer may be unlike it."""
        ...

    def learn(self, committed: Sequence[int]) -> None:
        """The stream went on with ``committed`` after the last choice."""
        ...

    def forget(self, tried: int) -> None:
        """Nothing beyond ``tried`` tokens can be learnt from the last choice."""
        ...


def longest_match(members: Iterable[Member], min_match: int) -> tuple[Member, int] | None:
    """The member with the longest match and its length, ties to the first; none if too short."""
    best: Member | None = None
    length = min_match - 1
    for member in members:
        match = member.matcher.match_length
        if match > length:
            best, length = member, match
    return None if best is None else (best, length)


class RecordPolicy:
    """The longest match drafts ``budget_factor`` tokens for each matched one; else recycling."""

    def __init__(self, options: IndexOptions) -> None:
        self._options = options

    def choose(
        self, matched: Sequence[Member], recycling: Member | None, limit: int
    ) -> Choice | None:
        """See :class:`DraftPolicy`."""
        options = self._options
        found = longest_match(matched, options.min_match)
        if found is not None:
            member, match = found
            return Choice(member, member.draft(min(limit, options.budget_factor * (1 + match))))
        if recycling is not None:
            return Choice(recycling, recycling.draft(min(limit, options.max_recycled)))
        return None

    def begin_turn(self, members: Sequence[Member]) -> None:
        """Fixed rules stay as they are."""

    def learn(self, committed: Sequence[int]) -> None:
        """Fixed rules learn nothing."""

    def forget(self, tried: int) -> None:
        """Fixed rules have nothing to forget."""
