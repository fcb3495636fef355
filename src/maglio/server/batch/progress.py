"""How far a batch is. A value.

Boundary: imports nothing of the extra ``server``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """How far a batch is. Tokens, drafts and times are of this run alone.

    Attributes:
        requests: lines of the batch.
        done: how many of them have a result,
        failed: how many of these are errors,
        earlier: and how many were there when this run began.
        running: answers under way.
        prompt_tokens: tokens of the prompts that were begun,
        cached_tokens: and how many of them were computed for an earlier request.
        tokens: tokens generated.
        drafted: draft tokens verified,
        accepted: and accepted.
        seconds: since this run began.
    """

    requests: int
    done: int
    failed: int
    earlier: int
    running: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    seconds: float = 0.0

    @property
    def left(self) -> int:
        """How many lines have no result yet."""
        return self.requests - self.done

    @property
    def tokens_per_s(self) -> float:
        """Generated tokens per second."""
        return self.tokens / self.seconds if self.seconds > 0 else 0.0

    @property
    def remaining_s(self) -> float | None:
        """Seconds that the rest takes at the pace so far; ``None`` while nothing is done.

        An answer under way counts as half of one.
        """
        under_way = min(self.running, self.left) / 2
        done = self.done - self.earlier
        return self.seconds * (self.left - under_way) / (done + under_way) if done else None
