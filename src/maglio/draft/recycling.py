"""Drafts from recycled logits: what the model's own rows said would follow a token.

Boundary: checks what goes into the native tables (``csrc/draft/recycling.h``), and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maglio._core import Recycling
from maglio.draft.member import Guess, Ids
from maglio.errors import InvalidArgumentError, OutOfMemoryError
from maglio.tokens import token_array

DEFAULT_PAIR_SLOTS = 1 << 16
"""Pairs of tokens that the second table can hold: 0.8 MB."""


class RecyclingMember:
    """The best candidates after every token, as the latest rows computed after it had them.

    Token Recycling (Luo et al., ACL 2025), with chains instead of trees, and with a second table
    keyed by the last two tokens that answers first.

    Args:
        n_vocab: number of token ids.
        pair_slots: size of the second table, a power of two; 0 is none.

    Raises:
        InvalidArgumentError: an argument is out of range.
        OutOfMemoryError: there is no memory for the tables (32 bytes per id of the vocabulary).
    """

    WIDTH = Recycling.WIDTH
    """Candidates kept per token."""

    name = "recycling"
    match_length = 0

    def __init__(self, n_vocab: int, *, pair_slots: int = DEFAULT_PAIR_SLOTS) -> None:
        try:
            self._native = Recycling(n_vocab, pair_slots=pair_slots)
        except (ValueError, TypeError) as error:
            raise InvalidArgumentError(str(error)) from None
        except MemoryError as error:
            raise OutOfMemoryError(f"no memory to recycle {n_vocab} token ids") from error

    @property
    def native(self) -> Recycling:
        """The native tables, to read."""
        return self._native

    def follow(self, tokens: Ids) -> None:
        """Note that the stream goes on with ``tokens``, int32 ``(n,)``.

        Raises:
            InvalidArgumentError: an id is outside the vocabulary; nothing is then learnt.
        """
        try:
            self._native.observe(tokens)
        except ValueError as error:
            raise InvalidArgumentError(str(error)) from None

    def recycle(self, tokens: Sequence[int], candidates: Ids) -> None:
        """Learn that ``candidates[i]``, best first, may follow ``tokens[i]``.

        Args:
            tokens: consecutive tokens. If the first is the stream's last one, they are taken to
                go on from there.
            candidates: int32 ``(len(tokens), n)``; the first 8 columns are kept.

        Raises:
            InvalidArgumentError: an id is outside the vocabulary, or there is not one row per
                token; nothing is then learnt.
        """
        rows = np.ascontiguousarray(candidates, dtype=np.int32)
        try:
            self._native.observe_rows(token_array(tokens), rows)
        except (ValueError, TypeError) as error:
            raise InvalidArgumentError(str(error)) from None

    def rewind(self, stream: Ids) -> None:
        """The stream is now ``stream``; what was learnt about the model stays."""
        self._native.restart()
        self._native.observe(stream[-2:])

    def draft(self, limit: int) -> list[int]:
        """The chain of best successors after the stream, at most ``limit`` tokens."""
        return self._native.draft(limit)

    def guesses(self, limit: int) -> Sequence[Guess]:
        """The same chain; the table counts nothing, so every token has the evidence ``once``."""
        tokens = self._native.draft(limit)
        return (Guess(self.name, 0, tokens, bytes(len(tokens))),) if tokens else ()

    def topk_of(self, token: int) -> list[int]:
        """Candidates after ``token``, best first; empty if none was seen.

        Raises:
            InvalidArgumentError: ``token`` is outside the vocabulary.
        """
        try:
            return self._native.topk_of(token)
        except (ValueError, TypeError) as error:
            raise InvalidArgumentError(str(error)) from None
