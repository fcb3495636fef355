"""The drafting seam: token ids in, token ids out. No model, no text.

A source proposes how the committed stream might go on. It can be wrong at will: the decoder
verifies every proposal, so a source only ever changes speed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from maglio._core import FrozenAutomaton


@runtime_checkable
class DraftSource(Protocol):
    """Anything deterministic that proposes draft tokens.

    A source may also implement the optional protocols below; the decoder looks for them by
    attribute, once, when it is built.
    """

    def suggest(self, context: Sequence[int], limit: int) -> Sequence[int]:
        """Propose at most ``limit`` tokens to follow ``context``, the whole committed stream."""
        ...

    def observe(self, committed: Sequence[int]) -> None:
        """Take note of tokens that were just committed (the prompt first, then every step)."""
        ...


@runtime_checkable
class ObservesTopK(Protocol):
    """A source that also learns from the best candidates of verified rows."""

    @property
    def topk(self) -> int:
        """How many candidates per row to deliver; 0 switches the work off."""
        ...

    def observe_topk(self, tokens: Sequence[int], candidates: npt.NDArray[np.int32]) -> None:
        """Learn that ``candidates[i]``, best first, may follow ``tokens[i]``."""
        ...


@runtime_checkable
class TruncatesPending(Protocol):
    """A source that keeps account of the draft it last suggested."""

    def truncate_pending(self, n: int) -> None:
        """Count only the first ``n`` tokens of the last suggestion: the rest was never tried."""
        ...


@runtime_checkable
class Rewinds(Protocol):
    """A source that can follow a stream which is cut back and goes on differently."""

    def rewind(self, kept: Sequence[int]) -> None:
        """The stream is now ``kept``, a beginning of what was observed; forget the rest of it."""
        ...


@runtime_checkable
class TakesReferences(Protocol):
    """A source that drafts from documents too."""

    def add_reference(self, document: FrozenAutomaton, *, name: str | None = None) -> str:
        """Draft from a document; returns the name it goes by."""
        ...

    def clear_references(self) -> None:
        """Forget all documents."""
        ...


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """How one source did: draft tokens proposed and accepted, and whether it is muted now."""

    drafted: int
    accepted: int
    muted: bool = False


@runtime_checkable
class LabelsDrafts(Protocol):
    """A source made of parts that says which part made the last suggestion."""

    @property
    def drafted_by(self) -> str:
        """Name of the part behind the last suggestion, such as ``reference:0``."""
        ...

    def counts(self) -> Mapping[str, SourceCounts]:
        """Counts of every part by name, in a stable order."""
        ...
