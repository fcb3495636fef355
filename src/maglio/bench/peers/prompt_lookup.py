"""Prompt lookup decoding as in Hugging Face transformers (``PromptLookupCandidateGenerator``).

Rule: take the last n tokens, n = 3, then 2, then 1; find their leftmost earlier occurrence; draft
the 10 tokens behind it. The first n that occurs is used.
"""

from __future__ import annotations

from collections.abc import Sequence

from maglio.draft.source import Draft, DraftSource, Step

MAX_NGRAM = 3
DRAFT_TOKENS = 10


class PromptLookupSource(DraftSource):
    """Copies what followed the leftmost occurrence of the longest n-gram, n up to 3."""

    def __init__(self) -> None:
        self._stream: list[int] = []
        self._first_end: dict[tuple[int, ...], int] = {}

    def propose(self, stream: Sequence[int], limit: int) -> Draft | None:
        """Propose at most ``min(limit, 10)`` tokens."""
        for n in range(min(MAX_NGRAM, len(stream)), 0, -1):
            end = self._first_end[tuple(stream[-n:])]
            if end < len(stream):
                return Draft(stream[end : end + min(limit, DRAFT_TOKENS)])
        return None

    def observe(self, step: Step) -> None:
        """Index the tokens."""
        for token in step.tokens:
            self._stream.append(token)
            end = len(self._stream)
            for n in range(1, min(MAX_NGRAM, end) + 1):
                self._first_end.setdefault(tuple(self._stream[-n:]), end)
