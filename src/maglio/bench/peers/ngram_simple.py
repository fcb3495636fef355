"""llama.cpp's ``ngram-simple`` with its defaults (``common/ngram-map.cpp``, 12 and 48).

Rule: find the latest earlier occurrence of the last 12 tokens and draft up to 48 tokens behind it,
if there are at least 12 of them and the history has more than 12 + 48 + 1 tokens. The newest token
is not copied, and an occurrence at the very beginning does not count.
"""

from __future__ import annotations

from collections.abc import Sequence

from maglio.draft.source import Draft, DraftSource, Step

NGRAM = 12
DRAFT_TOKENS = 48


class NgramSimpleSource(DraftSource):
    """Copies up to 48 tokens after a match of 12."""

    def __init__(self) -> None:
        self._stream: list[int] = []
        self._starts: dict[tuple[int, ...], list[int]] = {}

    def propose(self, stream: Sequence[int], limit: int) -> Draft | None:
        """Propose at most ``min(limit, 48)`` tokens."""
        length = len(stream) - 1  # without the newest token
        if length <= NGRAM + DRAFT_TOKENS + 1:
            return None
        starts = self._starts.get(tuple(stream[-NGRAM:]), [])
        start = max((s for s in starts if 0 < s < length - NGRAM), default=0)
        if start == 0:
            return None
        copied = min(DRAFT_TOKENS, length - (start + NGRAM))
        if copied < NGRAM:
            return None
        return Draft(stream[start + NGRAM : start + NGRAM + min(copied, limit)])

    def observe(self, step: Step) -> None:
        """Index the tokens."""
        for token in step.tokens:
            self._stream.append(token)
            start = len(self._stream) - NGRAM
            if start >= 0:
                self._starts.setdefault(tuple(self._stream[start:]), []).append(start)
