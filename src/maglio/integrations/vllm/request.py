"""One request as its tokens tell it: what was said, and what may come next.

Boundary: follows one stream with one draft source. Which row of vLLM it is, others know.
"""

from __future__ import annotations

from itertools import takewhile
from typing import NamedTuple

import numpy as np

from maglio.draft.cascade import Cascade
from maglio.draft.member import Ids
from maglio.draft.source import Draft, Step
from maglio.economics.gate import CostGate

_GROWTH = 256


class _Drafting(NamedTuple):
    source: Cascade
    gate: CostGate


class Request:
    """A request of vLLM. It is drafted for once it has a source.

    Args:
        tokens: all of its tokens so far, int32 ``(n,)``; they are copied.
        n_prompt: how many of them were given.
    """

    def __init__(self, tokens: Ids, *, n_prompt: int) -> None:
        self._buffer = np.concatenate([tokens, np.zeros(_GROWTH, dtype=np.int32)])
        self._length = len(tokens)
        self._n_prompt = n_prompt
        self._drafting: _Drafting | None = None
        self._proposed: list[int] = []
        self.n_verified = 0
        """Draft tokens in the step that brought the last tokens."""
        self.place = -1
        """The row that it was in when it was last seen."""
        self.seen = 0
        """The call in which that was."""

    def __len__(self) -> int:
        """Tokens so far."""
        return self._length

    @property
    def tokens(self) -> Ids:
        """All of them."""
        return self._buffer[: self._length]

    @property
    def said(self) -> Ids:
        """The tokens that were generated."""
        return self.tokens[self._n_prompt :]

    @property
    def has_source(self) -> bool:
        """Whether it is drafted for."""
        return self._drafting is not None

    def begins(self, tokens: Ids) -> bool:
        """Whether ``tokens`` are its tokens, or go on from them."""
        n = self._length
        if len(tokens) < n or tokens[n - 1] != self._buffer[n - 1]:
            return False
        return bool(np.array_equal(tokens[:n], self.tokens))

    def draft_from(self, source: Cascade, gate: CostGate) -> None:
        """Draft for it from now on.

        Args:
            source: proposes drafts; has observed nothing yet.
            gate: switches drafting off where it does not pay.

        Raises:
            MaglioError: the source cannot follow the tokens there are.
        """
        source.observe(Step(self.tokens.tolist()))
        self._drafting = _Drafting(source, gate)

    def follow(self, tokens: Ids) -> None:
        """It goes on with ``tokens``, int32 ``(n,)``, at least one; the draft is judged by them.

        Raises:
            MaglioError: the source cannot follow.
        """
        committed = tokens.tolist()
        last = int(self._buffer[self._length - 1])
        self._append(tokens)
        proposed, self._proposed = self._proposed, []
        draft, accepted = _judged(proposed, committed)
        self.n_verified = len(draft)
        if self._drafting is None:
            return
        step = Step(committed, (last, *draft), Draft(draft) if draft else None, accepted)
        self._drafting.source.observe(step)
        self._drafting.gate.record(rows=1 + len(draft), committed=len(committed))

    def propose(self, limit: int) -> Draft | None:
        """A draft of at most ``limit`` tokens, if one could pay; to be cut to what pays."""
        if self._drafting is None:
            return None
        source, gate = self._drafting
        limit = min(limit, gate.budget(limit))
        return source.propose((), limit) if limit > 0 else None  # it keeps the stream itself

    def verify(self, draft: list[int]) -> None:
        """Take note of what the next step is to verify."""
        self._proposed = draft

    def give_up(self) -> None:
        """Draft for it no more, and free the index."""
        self._drafting = None
        self._proposed = []

    def _append(self, tokens: Ids) -> None:
        end = self._length + len(tokens)
        if end > len(self._buffer):
            grown = np.zeros(end + max(_GROWTH, end // 2), dtype=np.int32)
            grown[: self._length] = self.tokens
            self._buffer = grown
        self._buffer[self._length : end] = tokens
        self._length = end


def _judged(proposed: list[int], committed: list[int]) -> tuple[list[int], int]:
    """The draft as far as vLLM verified it, and how many of its tokens were accepted.

    vLLM does not say what it verified: a grammar, or a lack of room, may have cut the draft. Each
    step brings one token more than was accepted. So where all that was committed agrees with the
    draft, its last token was the step's own.
    """
    if len(committed) > len(proposed) + 1:  # of several steps: not this draft's alone
        return [], 0
    pairs = zip(proposed, committed, strict=False)
    agreed = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    if agreed == len(committed):
        return proposed[: agreed - 1], agreed - 1
    return proposed, agreed
