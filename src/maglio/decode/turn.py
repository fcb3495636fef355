"""The token list of a stream, and the generation under way on it.

One truth: this list is the only state of a stream that counts. Everything else follows it. Tokens
that were not delivered count as never picked.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Literal, Protocol

from maglio.decode.constraint import Constraint, Mask
from maglio.decode.logprob import TokenLogprob, logprob_of
from maglio.engine.base import Logits
from maglio.errors import ContextFullError

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
        constraint: says which tokens may come, if anything does.
        n_top: alternatives to keep with each token's log-probability; ``None`` keeps neither.
        logprobs: those of the generated tokens.
        end: the length at which it ended, and why.
        failure: why it cannot go on, met behind tokens that stand.
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
    constraint: Constraint | None = None
    n_top: int | None = None
    logprobs: list[TokenLogprob] = field(default_factory=list)
    end: tuple[int, FinishReason] | None = None
    failure: Exception | None = None
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

    def check_room(self, n: int, n_ctx: int) -> None:
        """Raise ContextFullError if a prompt of ``n`` tokens does not fit after what stands."""
        total = self.taken + n
        if n > 0 and total > n_ctx:
            makes = f" after {self.taken} earlier ones makes {total}," if self.taken else " is"
            raise ContextFullError(
                f"the prompt of {n} tokens{makes} more than the context of {n_ctx}; shorten it, or "
                "load the model with a larger n_ctx"
            )

    @property
    def mask(self) -> Mask | None:
        """Which tokens may come next; ``None``: any."""
        return None if self.constraint is None else self.constraint.mask()

    def logprob(self, index: int) -> TokenLogprob | None:
        """How probable token number ``index`` of the list was."""
        return None if self.n_top is None else self.logprobs[index - self.start]

    def commit(self, token: int, row: Logits, n_ctx: int) -> None:
        """Append a token generated from ``row``, and end the generation if this one does.

        Raises:
            GrammarError: the constraint cannot follow it; it is not appended then.
        """
        if self.constraint is not None:
            self.constraint.extend((token,))
        if self.n_top is not None:
            self.logprobs.append(logprob_of(row, token, self.n_top))
        self.tokens.append(token)
        stopped = self.transcript is not None and self.transcript.push(token)
        if stopped or token in self.stops:
            self.end = len(self.tokens), "stop"
        elif not self.wants_token(n_ctx):
            self.end = len(self.tokens), "length"

    def read(self, cut: int) -> None:
        """Make all that reads the generated tokens hold them; of another list from ``cut`` on."""
        kept = max(0, cut - self.start)
        del self.logprobs[len(self.tokens) - self.start :]
        if self.constraint is not None:
            self.constraint.truncate(min(self.constraint.length, kept))
            self.constraint.extend(self.tokens[self.start + self.constraint.length :])
        if self.transcript is not None:
            self.transcript.truncate(min(self.transcript.length, kept))
            for token in self.tokens[self.start + self.transcript.length :]:
                self.transcript.push(token)

    def drop_untaken(self) -> bool:
        """Delete what was not delivered: it counts as never picked. Whether there was any."""
        if self.taken == len(self.tokens):
            return False
        self.cut = min(self.cut, self.taken)
        self.end = self.failure = None
        del self.tokens[self.taken :]
        return True
