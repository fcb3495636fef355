"""The decoder's side of the drafting seam: a source may be wrong, rude or broken.

Nothing a draft source does can change what is committed. Its drafts are cut to what can be
verified; when it raises, it is left alone until the next generation.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, ParamSpec, TypeVar, overload

from maglio import _core
from maglio.checks import check_int
from maglio.draft.source import DraftSource
from maglio.engine.base import Logits
from maglio.tokens import is_token

DEFAULT_LABEL = "draft"

_P = ParamSpec("_P")
_T = TypeVar("_T")


class StreamView(Sequence[int]):
    """The committed stream as a source sees it: always current, never writable."""

    __slots__ = ("_tokens",)

    def __init__(self, tokens: list[int]) -> None:
        self._tokens = tokens

    def __len__(self) -> int:
        return len(self._tokens)

    def __iter__(self) -> Iterator[int]:
        return iter(self._tokens)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        return self._tokens[index]


class GuardedSource:
    """A draft source whose exceptions and impossible tokens go no further.

    Its optional methods are looked up once, here. An exception of any of its methods switches it
    off until :meth:`revive`, is kept in :attr:`error`, and is told once as a RuntimeWarning.
    KeyboardInterrupt and its like are not caught.
    """

    def __init__(self, source: DraftSource, n_vocab: int) -> None:
        self._source = source
        self._n_vocab = n_vocab
        self._observe_topk = getattr(source, "observe_topk", None)
        self._truncate_pending = getattr(source, "truncate_pending", None)
        self._rewind = getattr(source, "rewind", None)
        self._counts = getattr(source, "counts", None)
        self._labels = hasattr(source, "drafted_by")
        self._topk = 0
        if self._observe_topk is not None:
            topk = getattr(source, "topk", 0)
            check_int("topk of the draft source", topk, 0, 2**31 - 1)
            self._topk = min(topk, n_vocab)
        self._suggested = 0
        self._warned = False
        self.error: str | None = None
        self.label = DEFAULT_LABEL

    def revive(self) -> None:
        """Give the source another chance: a new generation starts."""
        self.error = None

    def suggest(self, context: Sequence[int], limit: int) -> list[int]:
        """Ask for a draft; what cannot be verified is cut off. Sets :attr:`label`."""
        return self._guarded(self._suggest, context, limit) or []

    def conclude(self, tried: int) -> None:
        """The first ``tried`` tokens of the last suggestion were judged, and no more will be."""
        suggested, self._suggested = self._suggested, 0
        if tried < suggested and self._truncate_pending is not None:
            self._guarded(self._truncate_pending, tried)

    def observe(self, tokens: Sequence[int]) -> None:
        """Tell of committed ``tokens``."""
        self._guarded(self._source.observe, tokens)

    def rewind(self, kept: Sequence[int]) -> None:
        """Tell that the stream was cut back to ``kept``, if it can make use of that."""
        self._suggested = 0
        if self._rewind is not None:
            self._guarded(self._rewind, kept)

    def observe_topk(self, tokens: Sequence[int], rows: Logits) -> None:
        """Tell of the best candidates of ``rows``, ``(len(tokens), n_vocab)``, if it wants them."""
        if self._topk and self._observe_topk is not None and self.error is None:
            self._guarded(self._observe_topk, tokens, _core.topk_rows(rows, self._topk))

    def muted(self) -> dict[str, bool]:
        """The parts of the source by name, and whether each is muted now."""
        if self._counts is None:
            return {}
        return self._guarded(self._muted, self._counts) or {}

    def _suggest(self, context: Sequence[int], limit: int) -> list[int]:
        self._suggested = 0
        proposed = list(islice(self._source.suggest(context, limit), limit + 1))
        draft: list[int] = []
        for token in proposed[:limit]:
            if not is_token(token, self._n_vocab):
                break
            draft.append(int(token))
        label = getattr(self._source, "drafted_by", None) if self._labels and draft else None
        self.label = label if isinstance(label, str) else DEFAULT_LABEL
        self._suggested = len(proposed)
        return draft

    @staticmethod
    def _muted(counts: Callable[[], Mapping[str, Any]]) -> dict[str, bool]:
        return {str(name): bool(count.muted) for name, count in counts().items()}

    def _guarded(self, method: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T | None:
        if self.error is not None:
            return None
        try:
            return method(*args, **kwargs)
        except Exception as error:
            self._disable(error)
            return None

    def _disable(self, error: Exception) -> None:
        self.error = "".join(traceback.format_exception_only(error)).strip()
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"draft source {type(self._source).__name__} raised {self.error}; no drafts from "
                "it for the rest of this generation (the output is not affected)",
                RuntimeWarning,
                stacklevel=2,
            )
