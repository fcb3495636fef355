"""How often drafts are right: P(accepted | source, match length), measured on recorded streams.

At every position of every target turn, each source says what comes next, and the recorded tokens
say whether it is so. No policy has a hand in it, so the table is about the sources alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from maglio._core import SuffixAutomaton
from maglio.bench.stream import TokenStream, Turn
from maglio.draft.recycling import RecyclingTable

BUCKET_ENDS = (1, 2, 3, 4, 6, 8, 12, 20, 40)
"""The longest match of every bucket but the last, which is open."""

BUCKETS = ("1", "2", "3", "4", "5-6", "7-8", "9-12", "13-20", "21-40", "41+")
"""Names of the buckets of the conversation's match lengths."""

FOLLOWING = 3
"""Draft tokens after the first that are counted too."""


@dataclass(slots=True)
class Cell:
    """Counts of one source and bucket.

    Attributes:
        source: ``conversation`` or ``recycling``.
        bucket: the match length; empty for recycling, which has none.
        tried: by place in the draft, how often all tokens before it were right.
        accepted: how often this one was right too.
    """

    source: str
    bucket: str
    tried: list[int]
    accepted: list[int]

    def probability(self, place: int) -> float | None:
        """P(token ``place`` is right | all before it were); ``None`` if never tried."""
        return self.accepted[place] / self.tried[place] if self.tried[place] else None


def calibrate(streams: Iterable[TokenStream], n_vocab: int) -> dict[str, list[Cell]]:
    """Measure the sources on streams; the cells of each group, empty ones included."""
    tables: dict[str, list[Cell]] = {}
    for stream in streams:
        cells = tables.setdefault(stream.group, _empty_cells())
        probe = _Probe(cells, n_vocab)
        for turn in stream.turns:
            probe.take(turn)
    return tables


def _empty_cells() -> list[Cell]:
    def cell(source: str, bucket: str) -> Cell:
        return Cell(source, bucket, [0] * (1 + FOLLOWING), [0] * (1 + FOLLOWING))

    return [*(cell("conversation", bucket) for bucket in BUCKETS), cell("recycling", "")]


class _Probe:
    """Follows one stream with both sources, a token at a time where it is a target."""

    def __init__(self, cells: list[Cell], n_vocab: int) -> None:
        self._cells = cells
        self._conversation = SuffixAutomaton()
        self._recycling = RecyclingTable(n_vocab)

    def take(self, turn: Turn) -> None:
        if not turn.is_target:
            self._learn_rows(turn, 0, len(turn.tokens))
            self._commit(turn, 0, len(turn.tokens))
            return
        # The first token is the prefill's. Every other one is committed by a step that computes
        # the row of the token before it; its own row is not known when the next one is drafted.
        self._commit(turn, 0, 1)
        tokens: list[int] = turn.tokens.tolist()
        for place in range(1, len(tokens)):
            for cell, draft in self._drafts():
                _judge(cell, draft, tokens[place:])
            self._learn_rows(turn, place - 1, place)
            self._commit(turn, place, place + 1)
        self._learn_rows(turn, len(tokens) - 1, len(tokens))

    def _drafts(self) -> Iterator[tuple[Cell, list[int]]]:
        match = self._conversation.match_length
        if match > 0:
            bucket = bisect_left(BUCKET_ENDS, match)
            yield self._cells[bucket], self._conversation.draft(1 + FOLLOWING)
        yield self._cells[-1], self._recycling.draft(1 + FOLLOWING)

    def _commit(self, turn: Turn, begin: int, end: int) -> None:
        tokens = np.ascontiguousarray(turn.tokens[begin:end])
        self._conversation.extend(tokens)
        self._recycling.observe(tokens)

    def _learn_rows(self, turn: Turn, begin: int, end: int) -> None:
        if turn.candidates is not None:
            tokens = turn.tokens[begin:end].tolist()
            self._recycling.observe_topk(tokens, turn.candidates[begin:end])


def _judge(cell: Cell, draft: list[int], truth: list[int]) -> None:
    for place, (proposed, token) in enumerate(zip(draft, truth, strict=False)):
        cell.tried[place] += 1
        if proposed != token:
            return
        cell.accepted[place] += 1
