"""A generated token: its id, and who predicted it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token.

    Attributes:
        id: the token id.
        source: ``model``, or the name of the draft source that predicted the token.
    """

    id: int
    source: str
