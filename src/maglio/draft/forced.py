"""Tokens that a grammar leaves no choice about, as drafts.

Boundary: joins them with what a source drafts. What a grammar forces is text, and a model may
split the same text into other tokens, so how often it takes these is learnt.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

from maglio.draft.source import Draft, Step

LABEL = "grammar"

_PRIOR_ACCEPTED, _PRIOR_TRIED = 19.0, 20.0
_MEMORY = 256.0  # counts are halved here


class ForcedTokens:
    """Drafts what is forced, with the odds that the stream has taught."""

    def __init__(self) -> None:
        self._accepted, self._tried = _PRIOR_ACCEPTED, _PRIOR_TRIED

    @property
    def odds(self) -> float:
        """The probability that a forced token is what the model takes."""
        return self._accepted / self._tried

    def join(self, draft: Draft | None, forced: Sequence[int]) -> Draft | None:
        """Return the better of two drafts; one that begins with all that is forced is the better.

        Args:
            draft: what a source proposes, as far as the grammar allows it.
            forced: the tokens that are forced, as many as can be verified.
        """
        if not forced:
            return draft
        own = Draft(list(forced), LABEL, [self.odds] * len(forced))
        if draft is None or not draft.odds:
            return own if draft is None else draft
        n = len(forced)
        if list(draft.tokens[:n]) == own.tokens:
            odds = [max(pair) for pair in zip(draft.odds, own.odds, strict=False)]
            return Draft(draft.tokens, draft.source, [*odds, *draft.odds[n:]])
        return draft if _expected(draft) > _expected(own) else own

    def learn(self, step: Step) -> None:
        """A step met what was drafted."""
        if step.draft is None or step.draft.source != LABEL:
            return
        self._accepted += step.accepted
        self._tried += step.accepted + (step.accepted < len(step.draft.tokens))
        if self._tried > _MEMORY:
            self._accepted /= 2
            self._tried /= 2


def _expected(draft: Draft) -> float:
    """How many of its tokens will be accepted."""
    return float(sum(accumulate(draft.odds, mul)))
