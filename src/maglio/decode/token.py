"""A generated token: its id, and who predicted it."""

from __future__ import annotations

from dataclasses import dataclass

from maglio.decode.logprob import TokenLogprob


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token.

    Attributes:
        id: the token id.
        source: ``model``, or the name of the draft source that predicted the token.
        logprob: how probable it was; ``None`` if nobody asked.
    """

    id: int
    source: str
    logprob: TokenLogprob | None = None
