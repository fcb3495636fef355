"""Keeps what a turn discards from a draft source: stop markers, and the text of stop strings.

Boundary: counts tokens. Which tokens will stay, whoever reads their text has to say.

A source learns from every token and from every verified row, and cannot unlearn. Yet a turn ends
with tokens that leave the conversation again: the stop token, or those that spell a stop string.
So what a source is told waits here until its tokens are sure to stay. While something waits, the
source does not know where the stream stands, so it is not asked for drafts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from maglio._core import FrozenAutomaton
from maglio.draft.source import DraftSource, SourceCounts, TakesReferences
from maglio.errors import InvalidArgumentError

Rows = tuple[Sequence[int], npt.NDArray[np.int32]]


@dataclass(frozen=True, slots=True)
class _Step:
    """What the decoder told after one forward: rows, and the tokens committed from them."""

    rows: tuple[Rows, ...]
    committed: tuple[int, ...]

    def first(self, n: int) -> _Step:
        """The same without what concerns tokens beyond the first ``n`` committed ones."""
        rows = tuple((tokens[:n], candidates[:n]) for tokens, candidates in self.rows)
        return _Step(rows, self.committed[:n])


class TurnGate:
    """A draft source around another one, which hears only of tokens that stay.

    Args:
        inner: the source.
    """

    def __init__(self, inner: DraftSource) -> None:
        self.inner = inner
        self._observe_topk = getattr(inner, "observe_topk", None)
        self._truncate_pending = getattr(inner, "truncate_pending", None)
        self._counts = getattr(inner, "counts", None)
        self._settled: Callable[[], int] | None = None
        self._rows: list[Rows] = []
        self._waiting: list[_Step] = []
        self._told = 0  # tokens of the stream that the inner source was told of

    @property
    def topk(self) -> int:
        """Candidates per row that the source wants."""
        wanted: int = getattr(self.inner, "topk", 0)
        return wanted

    @property
    def drafted_by(self) -> str:
        """The source's name for the part that made the last draft."""
        name: str = getattr(self.inner, "drafted_by", "draft")
        return name

    def counts(self) -> Mapping[str, SourceCounts]:
        """The source's counts."""
        found: Mapping[str, SourceCounts] = {} if self._counts is None else self._counts()
        return found

    def add_reference(self, document: FrozenAutomaton, *, name: str | None = None) -> str:
        """Pass a document on.

        Raises:
            InvalidArgumentError: the source takes none, or not this one.
        """
        if not isinstance(self.inner, TakesReferences):
            raise InvalidArgumentError(
                f"{type(self.inner).__name__}, the draft source of this conversation, takes no "
                "references"
            )
        return self.inner.add_reference(document, name=name)

    def clear_references(self) -> None:
        """Have all documents forgotten."""
        if isinstance(self.inner, TakesReferences):
            self.inner.clear_references()

    def watch(self, settled: Callable[[], int] | None) -> None:
        """Ask ``settled`` from now on how many tokens of the stream are sure to stay.

        ``None``: all of them are.
        """
        self._settled = settled

    def suggest(self, context: Sequence[int], limit: int) -> Sequence[int]:
        """Propose what the source proposes; nothing while it is behind the stream."""
        return [] if self._waiting else self.inner.suggest(context, limit)

    def observe_topk(self, tokens: Sequence[int], candidates: npt.NDArray[np.int32]) -> None:
        """Keep verified rows until the tokens committed from them are known."""
        if self._observe_topk is not None:
            self._rows.append((tuple(tokens), candidates))

    def observe(self, committed: Sequence[int]) -> None:
        """Take committed tokens, and pass on what is sure to stay."""
        self._waiting.append(_Step(tuple(self._rows), tuple(committed)))
        self._rows = []
        settled = None if self._settled is None else self._settled()
        while self._waiting:
            step = self._waiting[0]
            if settled is not None and self._told + len(step.committed) > settled:
                break
            del self._waiting[0]
            self._tell(step)

    def truncate_pending(self, n: int) -> None:
        """Pass on how much of the last draft was tried."""
        if self._truncate_pending is not None:
            self._truncate_pending(n)

    def rewind(self, kept: Sequence[int]) -> None:
        """Pass on what stays of the waiting tokens and forget the rest.

        The source itself has to go back only if it was told of tokens that do not stay.
        """
        waiting, self._waiting, self._rows = self._waiting, [], []
        if len(kept) < self._told:
            self._told = len(kept)
            rewind = getattr(self.inner, "rewind", None)
            if rewind is not None:
                rewind(kept)
            return
        for step in waiting:
            stay = len(kept) - self._told
            if stay < len(step.committed):
                self.truncate_pending(stay)  # a draft counts as far as its tokens stay
            self._tell(step.first(stay))

    def _tell(self, step: _Step) -> None:
        """Tell the source of a step whose tokens all stay."""
        for tokens, candidates in step.rows:
            if self._observe_topk is not None and len(tokens) > 0:
                self._observe_topk(tokens, candidates)
        self._told += len(step.committed)
        self.inner.observe(step.committed)
