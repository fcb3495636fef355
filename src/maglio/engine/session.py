"""A session: direct use of an engine for one sequence. Token ids in, logits out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from maglio.checks import check_int
from maglio.engine.base import Cache, Engine, Logits, Segment
from maglio.errors import ContextFullError, InvalidArgumentError
from maglio.tokens import Tokens, token_array


class Session:
    """One sequence on an engine, for one thread at a time.

    Args:
        engine: runs the forwards.
        cache: a cache of that engine to go on with; a new one when ``None``.

    Raises:
        OutOfMemoryError: there is no memory for a new cache.
    """

    def __init__(self, engine: Engine, cache: Cache | None = None) -> None:
        self._engine = engine
        self._cache = engine.new_cache() if cache is None else cache

    @property
    def cache(self) -> Cache:
        """The cache behind it."""
        return self._cache

    @property
    def length(self) -> int:
        """Number of positions in the cache."""
        return self._cache.length

    @property
    def n_ctx(self) -> int:
        """Number of positions the cache can hold."""
        return self._engine.n_ctx

    @property
    def can_rewind(self) -> bool:
        """Whether :meth:`truncate` can drop the tokens of the last forward one by one."""
        return self._engine.can_rewind

    def prefill(
        self, tokens: Tokens, *, progress: Callable[[int, int], None] | None = None
    ) -> Logits:
        """Append ``tokens`` (at least one) and return the last row, float32 ``(n_vocab,)``.

        Works in pieces of :attr:`Engine.max_rows <maglio.engine.base.Engine.max_rows>` tokens. An
        exception in between (Ctrl-C too) leaves whole pieces in the cache.

        Args:
            tokens: token ids.
            progress: called with (tokens done, tokens in all) after each piece.

        Raises:
            InvalidArgumentError: there are no tokens, or one is outside the vocabulary.
            ContextFullError: the tokens do not fit; nothing is appended.
            OutOfMemoryError: there is no memory for the new positions.
        """
        ids = self._checked(tokens)
        step = self._engine.max_rows
        for start in range(0, len(ids), step):
            piece = ids[start : start + step]
            is_last = start + step >= len(ids)
            [rows] = self._engine.forward([Segment(self._cache, piece, int(is_last))])
            if progress is not None:
                progress(start + len(piece), len(ids))
        row: Logits = rows[0]
        return row

    def forward(self, tokens: Tokens) -> Logits:
        """Append ``tokens`` and return one row each, float32 ``(len(tokens), n_vocab)``.

        Raises as :meth:`prefill`.
        """
        ids = self._checked(tokens)
        step = self._engine.max_rows
        parts = []
        for start in range(0, len(ids), step):
            piece = ids[start : start + step]
            [rows] = self._engine.forward([Segment(self._cache, piece, len(piece))])
            parts.append(rows if len(ids) <= step else rows.copy())
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def truncate(self, length: int) -> int:
        """Keep the first ``length`` positions and forget the rest; return how many are kept.

        A cache with recurrent state may have to go further back than asked, see
        :meth:`Cache.truncate <maglio.engine.base.Cache.truncate>`.

        Raises:
            InvalidArgumentError: ``length`` is negative or more than the session holds.
        """
        check_int("length", length, 0, self.length)
        return self._cache.truncate(length)

    def fork(self, length: int | None = None) -> Session:
        """Return an independent session that begins with the same positions.

        Args:
            length: how many of them; all when ``None``.

        Raises:
            InvalidArgumentError: ``length`` is negative or more than the session holds.
            OutOfMemoryError: there is no memory for it.
        """
        kept = self.length if length is None else length
        check_int("length", kept, 0, self.length)
        return Session(self._engine, self._cache.fork(kept))

    def _checked(self, tokens: Tokens) -> Tokens:
        ids = token_array(tokens, self._engine.n_vocab)
        if ids.size == 0:
            raise InvalidArgumentError("tokens is empty, must hold at least one token id")
        if ids.size > self.n_ctx - self.length:
            raise ContextFullError(
                f"{ids.size} tokens do not fit: {self.length} of the context's {self.n_ctx} "
                "positions are in use; shorten the input or load the model with a larger n_ctx"
            )
        return ids
