"""Cascades as tests want them, and the steps that they hear of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

import numpy as np

from maglio.draft.cascade import Cascade
from maglio.draft.record import RecordOptions, RecordPolicy
from maglio.draft.source import Draft, DraftSource, Step


def prompt(tokens: Iterable[int]) -> Step:
    """Tokens that were given."""
    return Step([*tokens])


def plain(*tokens: int) -> Step:
    """Tokens that were generated without a draft."""
    return Step([*tokens], fed=tokens)


def verified(draft: Draft, tokens: Sequence[int], top: np.ndarray | None = None) -> Step:
    """A whole draft met what was committed."""
    agreeing = takewhile(lambda pair: pair[0] == pair[1], zip(draft.tokens, tokens, strict=False))
    return Step([*tokens], (0, *draft.tokens), draft, sum(1 for _ in agreeing), top)


def record_cascade(
    observed: Iterable[int] = (),
    *,
    n_vocab: int = 1000,
    conversation: bool = True,
    recycling: bool = True,
    pair_slots: int = 1 << 16,
    min_draft: int = 1,
    **options: object,
) -> Cascade:
    """A cascade of the record policy that has seen a prompt; it drafts single tokens too."""
    cascade = Cascade(
        n_vocab,
        RecordPolicy(RecordOptions(min_draft=min_draft, **options)),
        conversation=conversation,
        recycling=recycling,
        pair_slots=pair_slots,
    )
    cascade.observe(prompt(observed))
    return cascade


def proposed(source: DraftSource, limit: int = 99) -> tuple[str, list[int]] | None:
    """Who drafts, and what."""
    draft = source.propose([], limit)
    return None if draft is None else (draft.source, list(draft.tokens))
