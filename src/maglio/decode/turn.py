"""The token list of a stream, and the generation under way on it.

One truth: this list is the only state of a stream that counts. Everything else follows it. Tokens
that were not delivered count as never picked.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal, Protocol

FinishReason = Literal["stop", "length"]

NOWHERE = sys.maxsize


class Transcript(Protocol):
    """Reads a generation as text; :class:`maglio.text.Transcript` is the usual one."""

    @property
    def length(self) -> int:
        """Generated tokens read so far."""
        ...

    @property
    def settled(self) -> int:
        """How many of them are sure to stay: no stop string can reach back to them."""
        ...

    def push(self, token: int) -> bool:
        """Read the next generated token; whether it completes a stop string."""
        ...

    def truncate(self, length: int) -> None:
        """Forget all but the first ``length`` generated tokens."""
        ...


@dataclass(slots=True)
class Turn:
    """The token list, and the generation under way on it. Replaced as a whole, in one store.

    Attributes:
        tokens: prompts and generated tokens, in order.
        taken: how many of them stand; the rest was not delivered yet.
        start: where the generated tokens begin.
        prefill: how many of the first tokens are fed without drafts: up to the end of a prompt.
        drawn: position in the random stream of the first of them.
        cut: what followers hold from here on is of an earlier list.
        max_tokens: most tokens to generate; ``None`` before the first generation.
        stops: ids that end it.
        transcript: reads it, if anything does.
        end: the length at which it ended, and why.
        answer: where the answer begins; before :attr:`start` if this generation goes on with one.
    """

    tokens: list[int]
    taken: int
    start: int
    prefill: int
    drawn: int
    cut: int = NOWHERE
    max_tokens: int | None = None
    stops: frozenset[int] = frozenset()
    transcript: Transcript | None = None
    end: tuple[int, FinishReason] | None = None
    answer: int = 0

    @property
    def position(self) -> int:
        """Where the random stream stands: how many tokens were generated and delivered."""
        return self.drawn + self.taken - self.start

    @property
    def settled(self) -> int:
        """How many of the tokens are sure to stay."""
        if self.transcript is None:
            return len(self.tokens)
        return self.start + self.transcript.settled

    def wants_token(self, n_ctx: int) -> bool:
        """Whether one more token is to be generated."""
        generated = len(self.tokens) - self.start
        return generated < (self.max_tokens or 0) and len(self.tokens) <= n_ctx

    def commit(self, token: int, n_ctx: int) -> None:
        """Append a generated token, and end the generation if this one does."""
        self.tokens.append(token)
        stopped = self.transcript is not None and self.transcript.push(token)
        if stopped or token in self.stops:
            self.end = len(self.tokens), "stop"
        elif not self.wants_token(n_ctx):
            self.end = len(self.tokens), "length"

    def read(self, cut: int) -> None:
        """Make the transcript hold the generated tokens; of an earlier list from ``cut`` on."""
        if self.transcript is None:
            return
        self.transcript.truncate(min(self.transcript.length, max(0, cut - self.start)))
        for token in self.tokens[self.start + self.transcript.length :]:
            self.transcript.push(token)

    def drop_untaken(self) -> bool:
        """Delete what was not delivered: it counts as never picked. Whether there was any."""
        if self.taken == len(self.tokens):
            return False
        self.cut = min(self.cut, self.taken)
        self.end = None
        del self.tokens[self.taken :]
        return True
