"""What was said so far. Plain data: knows no template, no tokens and no model."""

from __future__ import annotations

from dataclasses import dataclass, replace

from maglio.chat.turn import Turn


@dataclass(frozen=True, slots=True)
class Exchanges:
    """A conversation up to now.

    Attributes:
        system: the system prompt, if any.
        turns: all turns, oldest first.
        dropped: how many of the oldest the model does not see any more.
    """

    system: str | None = None
    turns: tuple[Turn, ...] = ()
    dropped: int = 0

    def messages(self, last: int | None = None, user: str | None = None) -> list[dict[str, str]]:
        """What the model sees of the turns up to ``last``, and then what the user says."""
        messages = [] if self.system is None else [{"role": "system", "content": self.system}]
        for turn in self.turns[self.dropped : last]:
            messages.append({"role": "user", "content": turn.user})
            messages.append({"role": "assistant", "content": turn.answer})
        if user is not None:
            messages.append({"role": "user", "content": user})
        return messages

    def begins(self, other: Exchanges) -> bool:
        """Whether ``other`` goes on from this one, or is it."""
        mine = self.system, self.dropped, self.turns
        return mine == (other.system, other.dropped, other.turns[: len(self.turns)])

    def first(self, n: int) -> Exchanges:
        """The first ``n`` turns."""
        return replace(self, turns=self.turns[:n], dropped=min(self.dropped, n))

    def without(self, turn: int) -> Exchanges:
        """All turns but number ``turn``."""
        turns = self.turns[:turn] + self.turns[turn + 1 :]
        return replace(self, turns=turns, dropped=self.dropped - (turn < self.dropped))

    def dropping(self, n: int) -> Exchanges:
        """The same, with ``n`` turns that the model no longer sees."""
        return replace(self, dropped=n)

    def plus(self, turn: Turn) -> Exchanges:
        """One turn more."""
        return replace(self, turns=(*self.turns, turn))
