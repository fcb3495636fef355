"""What the next forward of a sequence should compute, and what it was sent to compute. Values."""

from __future__ import annotations

from typing import NamedTuple

from maglio.draft.source import Draft


class Plan(NamedTuple):
    """What the next forward of a sequence should compute.

    Attributes:
        missing: tokens that the cache lacks, the last committed one included.
        draft: tokens to verify after them; only when one token is missing.
        alone: whether the row is wanted again, in a forward that computes nothing else.
    """

    missing: int
    draft: Draft | None
    alone: bool = False


class Sent(NamedTuple):
    """The segment that was handed out, until its rows come back."""

    base: int  # length of the cache before it
    tokens: list[int]
    draft: Draft | None
    n_logits: int
    again: bool  # the row was computed before, with others
