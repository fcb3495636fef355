"""How much the decoder drafts, and how a generation can end: values, checked when made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from maglio.checks import MAX_TOKEN_ID, check_int

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeOptions:
    """How much is drafted.

    Attributes:
        max_draft: most draft tokens per verify step, at least 1.
        min_draft: shorter drafts are not worth a verify step and become a plain step; from 1 to
            ``max_draft``.

    Raises:
        InvalidArgumentError: a field is out of its range.
    """

    max_draft: int = 16
    min_draft: int = 2

    def __post_init__(self) -> None:
        check_int("max_draft", self.max_draft, 1, MAX_TOKEN_ID)
        check_int("min_draft", self.min_draft, 1, self.max_draft)
