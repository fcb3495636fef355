"""llama.cpp's ``ngram-mod`` with its defaults (``common/ngram-mod.cpp``, 24, 48 and 64).

Rule: one table of 4 M entries, shared by all streams, maps a hash of 24 tokens to the token that
followed; the last writer wins and keys are not compared. A draft chains lookups, up to 64 tokens;
a miss before 48 gives it up. A stream adds its n-grams when 32 new tokens have come, up to the
newest one. Five drafts in a row with less than a quarter accepted, or a quarter of the table in
use, empty it.
"""

from __future__ import annotations

from collections.abc import Sequence

from maglio.draft.source import Draft, DraftSource, Step

NGRAM = 24
MIN_DRAFT = 48
MAX_DRAFT = 64
TABLE_SIZE = 4 * 1024 * 1024
ADD_EVERY = 32
MAX_LOW = 5
LOW_ACCEPTANCE = 0.25
MAX_USED = 0.25

_MULTIPLIER = 6364136223846793005
_MASK = (1 << 64) - 1


class NgramModTable:
    """Hash of an n-gram to the token that followed it last. One for all streams."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}

    def add(self, ngram: Sequence[int], token: int) -> None:
        """Note that ``token`` followed ``ngram``."""
        self._next[_slot(ngram)] = token

    def get(self, ngram: Sequence[int]) -> int | None:
        """The token in the slot of ``ngram``."""
        return self._next.get(_slot(ngram))

    def reset(self) -> None:
        """Forget everything."""
        self._next.clear()

    def reset_if_crowded(self) -> None:
        """Forget everything once a quarter of the table is in use."""
        if len(self._next) > MAX_USED * TABLE_SIZE:
            self.reset()


def _slot(ngram: Sequence[int]) -> int:
    value = 0
    for token in ngram:
        value = (value * _MULTIPLIER + token) & _MASK
    return value % TABLE_SIZE


class NgramModSource(DraftSource):
    """Drafts 48 to 64 tokens from the shared table."""

    def __init__(self, table: NgramModTable) -> None:
        self._table = table
        self._stream: list[int] = []
        self._added = 0  # n-grams that start before this place are in the table
        self._low = 0

    def propose(self, stream: Sequence[int], limit: int) -> Draft | None:
        """Propose at most ``min(limit, 64)`` tokens; 48 must be known, or it proposes none."""
        length = len(self._stream) - 1  # without the newest token
        if length < NGRAM:
            return None
        if self._added + ADD_EVERY < length:
            for start in range(self._added, length - NGRAM):
                self._table.add(self._stream[start : start + NGRAM], self._stream[start + NGRAM])
            self._added = length - NGRAM
        window = self._stream[-NGRAM:]
        while len(window) < NGRAM + MAX_DRAFT:
            token = self._table.get(window[-NGRAM:])
            if token is None:
                if len(window) < NGRAM + MIN_DRAFT:
                    return None
                break
            window.append(token)
        return Draft(window[NGRAM : NGRAM + limit])

    def observe(self, step: Step) -> None:
        """Judge the last draft, and take the tokens for the next update of the table."""
        if step.draft is not None:
            drafted = len(step.draft.tokens)
            self._low = self._low + 1 if step.accepted < LOW_ACCEPTANCE * drafted else 0
            if self._low >= MAX_LOW:
                self._table.reset()
                self._low = 0
        if not self._stream:
            self._table.reset_if_crowded()
        self._stream.extend(step.tokens)
