"""SuffixDecoding (Oliaro et al., NeurIPS 2025) as in ArcticInference and vLLM, in path mode.

Rule: for every length m of the stream's end that occurs in the suffix tree, walk down the most
frequent children while the product of their probabilities is at least 0.1, for at most m tokens
(factor 1.0); a child's probability is its count over its parent's. The walk's score is the sum of
those products, the expected number of accepted tokens. The best score drafts, ties to the longer
match. One tree holds the request, another the outputs of all requests; on equal scores the
request's own tree drafts.

Where ArcticInference is installed, its own tree does this (``peers/arctic.py``). Elsewhere the rule
is followed without a tree: the occurrences of an end are found by narrowing a list of positions.
As in the tree, the present end of the stream counts as an occurrence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from maglio.bench.peers.arctic import ArcticCorpus, find_suffix_tree
from maglio.draft.source import Draft, DraftSource, Step

MAX_DEPTH = 64
FACTOR = 1.0
MIN_PROBABILITY = 0.1
DRAFT_TOKENS = 16

_SEPARATOR = -1

_Positions = npt.NDArray[np.int64]


class Corpus(Protocol):
    """Token sequences that can be asked how an n-gram goes on."""

    def begin(self) -> None:
        """What is added from now on follows nothing."""
        ...

    def extend(self, tokens: Sequence[int]) -> None:
        """Add tokens."""
        ...

    def speculate(self, end: Sequence[int], limit: int) -> tuple[float, list[int]]:
        """The best score and its draft after a stream that ends with ``end``."""
        ...


def make_corpus() -> Corpus:
    """ArcticInference's tree if it is installed, or the rule."""
    tree = find_suffix_tree()
    if tree is None:
        return RuleCorpus()
    return ArcticCorpus(tree(MAX_DEPTH), factor=FACTOR, min_probability=MIN_PROBABILITY)


class RuleCorpus:
    """The published rule."""

    def __init__(self) -> None:
        self._tokens = np.empty(1024, dtype=np.int32)
        self._length = 0
        self._ends: dict[int, list[int]] = {}

    def begin(self) -> None:
        """See :class:`Corpus`."""
        self.extend([_SEPARATOR])

    def extend(self, tokens: Sequence[int]) -> None:
        """See :class:`Corpus`."""
        needed = self._length + len(tokens)
        if needed + MAX_DEPTH > len(self._tokens):
            self._tokens = np.resize(self._tokens, 2 * (needed + MAX_DEPTH))
        for token in tokens:
            self._tokens[self._length] = token
            self._length += 1
            if token != _SEPARATOR:
                self._ends.setdefault(token, []).append(self._length)

    def speculate(self, end: Sequence[int], limit: int) -> tuple[float, list[int]]:
        """See :class:`Corpus`."""
        best: tuple[float, list[int]] = (0.0, [])
        positions: _Positions = np.array(self._ends.get(end[-1], ()) if end else (), dtype=np.int64)
        match = 1
        while len(positions) and match < len(end):
            narrower = self._narrowed(positions, match, end)
            # Ends with the same occurrences go on alike; the longest may draft the most.
            if len(narrower) < len(positions) or match + 1 == len(end):
                best = max(self._path(positions, match, limit), best, key=lambda found: found[0])
            if len(narrower) == 1 and narrower[0] == self._length:
                break  # what is left is the stream's own end, which nothing follows
            positions = narrower
            match += 1
        return best

    def _narrowed(self, positions: _Positions, match: int, end: Sequence[int]) -> _Positions:
        inside = positions[positions > match]
        narrowed: _Positions = inside[self._tokens[inside - match - 1] == end[-match - 1]]
        return narrowed

    def _path(self, positions: _Positions, match: int, limit: int) -> tuple[float, list[int]]:
        budget = min(limit, int(match * FACTOR), MAX_DEPTH - match)
        draft: list[int] = []
        probability, score = 1.0, 0.0
        while len(draft) < budget:
            parents = len(positions)
            positions = positions[positions < self._length]
            following = self._tokens[positions]
            token, count = _most_frequent(following[following != _SEPARATOR])
            probability *= count / parents
            if count == 0 or probability < MIN_PROBABILITY:
                break
            draft.append(token)
            score += probability
            positions = positions[following == token] + 1
        return score, draft


def _most_frequent(tokens: npt.NDArray[np.int32]) -> tuple[int, int]:
    if len(tokens) == 0:
        return 0, 0
    values, counts = np.unique(tokens, return_counts=True)
    best = int(np.argmax(counts))
    return int(values[best]), int(counts[best])


class PastOutputs:
    """The tree of the outputs of all requests."""

    def __init__(self) -> None:
        self.corpus = make_corpus()


class SuffixDecodingSource(DraftSource):
    """Drafts from the suffix tree of the request, and of past outputs if given.

    Prompts are not in the tree of outputs.
    """

    def __init__(self, past: PastOutputs | None = None) -> None:
        self._own = make_corpus()
        self._past = None if past is None else past.corpus
        self._end: list[int] = []
        if self._past is not None:
            self._past.begin()

    def propose(self, stream: Sequence[int], limit: int) -> Draft | None:
        """Propose at most ``min(limit, 16)`` tokens."""
        limit = min(limit, DRAFT_TOKENS)
        score, draft = self._own.speculate(self._end, limit)
        if self._past is not None:
            past_score, past_draft = self._past.speculate(self._end, limit)
            if past_score > score:
                return Draft(past_draft)
        return Draft(draft)

    def observe(self, step: Step) -> None:
        """Add the tokens to the trees."""
        self._own.extend(step.tokens)
        if self._past is not None and step.fed:
            self._past.extend(step.tokens)
        self._end = [*self._end, *step.tokens][-MAX_DEPTH:]
