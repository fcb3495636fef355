"""How often drafts are right: P(accepted | source, match length), measured on recorded streams,
and P(accepted | source, match length, evidence) for first tokens.

At every position of every target turn, each source says what comes next, and the recorded tokens
say whether it is so. No policy has a hand in it, so the table is about the sources alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from maglio._core import SuffixAutomaton
from maglio.bench.stream import TokenStream, Turn
from maglio.draft.calibration import EVIDENCE
from maglio.draft.recycling import RecyclingMember

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
        weighed_tried: by class of evidence for the first token, how often there was one.
        weighed_accepted: how often it was right.
    """

    source: str
    bucket: str
    tried: list[int] = field(default_factory=lambda: [0] * (1 + FOLLOWING))
    accepted: list[int] = field(default_factory=lambda: [0] * (1 + FOLLOWING))
    weighed_tried: list[int] = field(default_factory=lambda: [0] * len(EVIDENCE))
    weighed_accepted: list[int] = field(default_factory=lambda: [0] * len(EVIDENCE))

    def probability(self, place: int) -> float | None:
        """P(token ``place`` is right | all before it were); ``None`` if never tried."""
        return self.accepted[place] / self.tried[place] if self.tried[place] else None

    def weighed_probability(self, evidence: int) -> float | None:
        """P(the first token is right | the evidence for it); ``None`` if never tried."""
        tried = self.weighed_tried[evidence]
        return self.weighed_accepted[evidence] / tried if tried else None

    def judge(self, draft: list[int], evidence: bytes, truth: list[int]) -> None:
        """Count a draft against the recorded tokens."""
        if draft and truth:
            self.weighed_tried[evidence[0]] += 1
            self.weighed_accepted[evidence[0]] += draft[0] == truth[0]
        for place, (proposed, token) in enumerate(zip(draft, truth, strict=False)):
            self.tried[place] += 1
            if proposed != token:
                return
            self.accepted[place] += 1


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
    return [*(Cell("conversation", bucket) for bucket in BUCKETS), Cell("recycling", "")]


class _Probe:
    """Follows one stream with both sources, a token at a time where it is a target."""

    def __init__(self, cells: list[Cell], n_vocab: int) -> None:
        self._cells = cells
        self._conversation = SuffixAutomaton()
        self._recycling = RecyclingMember(n_vocab)

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
            for cell, draft, evidence in self._drafts():
                cell.judge(draft, evidence, tokens[place:])
            self._learn_rows(turn, place - 1, place)
            self._commit(turn, place, place + 1)
        self._learn_rows(turn, len(tokens) - 1, len(tokens))

    def _drafts(self) -> Iterator[tuple[Cell, list[int], bytes]]:
        match = self._conversation.match_length
        if match > 0:
            bucket = bisect_left(BUCKET_ENDS, match)
            yield self._cells[bucket], *self._conversation.weighed_draft(1 + FOLLOWING)
        draft = self._recycling.draft(1 + FOLLOWING)
        yield self._cells[-1], draft, bytes(len(draft))

    def _commit(self, turn: Turn, begin: int, end: int) -> None:
        tokens = np.ascontiguousarray(turn.tokens[begin:end])
        self._conversation.extend(tokens)
        self._recycling.follow(tokens)

    def _learn_rows(self, turn: Turn, begin: int, end: int) -> None:
        if turn.candidates is not None:
            tokens = turn.tokens[begin:end].tolist()
            self._recycling.recycle(tokens, turn.candidates[begin:end])
