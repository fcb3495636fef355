"""The record policy: the longest match drafts, by fixed rules, and bad sources are muted.

These are the rules and the constants of the system that Maglio follows; they are kept runnable as
the baseline. Everything of that policy is in this module.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from maglio.checks import MAX_TOKEN_ID, check_int, check_real
from maglio.draft.member import Member
from maglio.draft.source import Draft, Step
from maglio.economics.gate import GateOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOptions:
    """The constants of the record policy.

    Attributes:
        min_draft: shorter drafts are not worth a verify step.
        min_match: shortest match, in tokens, worth drafting from.
        budget_factor: a match of ``n`` tokens is worth ``budget_factor * (1 + n)`` draft tokens.
        max_recycled: most draft tokens from recycling.
        window: a source is judged by this many of its latest draft tokens.
        min_acceptance: a full window below this share mutes the source.
        mute_for: committed tokens that a source stays muted; 0 switches muting off.

    Raises:
        InvalidArgumentError: a field is out of its range.
    """

    min_draft: int = 2
    min_match: int = 2
    budget_factor: int = 2
    max_recycled: int = 8
    window: int = 64
    min_acceptance: float = 0.2
    mute_for: int = 128

    def __post_init__(self) -> None:
        for name in ("min_draft", "min_match", "budget_factor", "max_recycled", "window"):
            check_int(name, getattr(self, name), 1, MAX_TOKEN_ID)
        check_int("mute_for", self.mute_for, 0, MAX_TOKEN_ID)
        check_real("min_acceptance", self.min_acceptance, 0.0, 1.0)


class _Account:
    """How one source did lately, and whether it is muted."""

    __slots__ = ("_options", "_window", "mute_left")

    def __init__(self, options: RecordOptions) -> None:
        self._options = options
        self._window: deque[bool] = deque(maxlen=options.window)
        self.mute_left = 0

    def judge(self, drafted: int, accepted: int) -> None:
        options = self._options
        self._window.extend(index < accepted for index in range(drafted))
        is_full = len(self._window) == options.window
        if is_full and sum(self._window) < options.min_acceptance * options.window:
            self.mute_left = options.mute_for
            self._window.clear()


class RecordPolicy:
    """The longest match drafts ``budget_factor`` tokens for each matched one; else recycling.

    A source whose drafts are seldom accepted is muted for a while. It goes on following the stream,
    so it is in step when it returns, with a fresh window.

    Args:
        options: the constants.
    """

    def __init__(self, options: RecordOptions | None = None) -> None:
        self._options = options or RecordOptions()
        self.gate = GateOptions(min_budget=self._options.min_draft)
        self._accounts: dict[str, _Account] = {}

    def choose(
        self, matching: Sequence[Member], recycling: Member | None, limit: int
    ) -> Draft | None:
        """See :class:`~maglio.draft.cascade.Policy`."""
        options = self._options
        if limit < options.min_draft:
            return None
        found = self._longest_match(member for member in matching if not self.muted(member.name))
        if found is not None:
            member, match = found
            tokens = member.draft(min(limit, options.budget_factor * (1 + match)))
        elif recycling is not None and not self.muted(recycling.name):
            member = recycling
            tokens = member.draft(min(limit, options.max_recycled))
        else:
            return None
        return Draft(tokens, member.name) if len(tokens) >= options.min_draft else None

    def learn(self, step: Step) -> None:
        """Count committed tokens against the mutes, and the draft against its source."""
        for account in self._accounts.values():
            account.mute_left = max(0, account.mute_left - len(step.tokens))
        if step.draft is not None and self._options.mute_for > 0:
            account = self._accounts.setdefault(step.draft.source, _Account(self._options))
            account.judge(len(step.draft.tokens), step.accepted)

    def muted(self, name: str) -> bool:
        """Whether a source is muted."""
        account = self._accounts.get(name)
        return account is not None and account.mute_left > 0

    def forget(self, name: str) -> None:
        """See :class:`~maglio.draft.cascade.Policy`."""
        self._accounts.pop(name, None)

    def _longest_match(self, members: Iterable[Member]) -> tuple[Member, int] | None:
        """The member with the longest match and its length, ties to the first."""
        best: Member | None = None
        length = self._options.min_match - 1
        for member in members:
            match = member.match_length
            if match > length:
                best, length = member, match
        return None if best is None else (best, length)
