"""The decoder's side of the drafting seam: a source may be wrong, late or broken.

Boundary: guards one source for one stream. It tells the source what was committed, asks it for
drafts, cuts them to what can be verified, and asks the cost gate first. Nothing that a source does
can change what is committed; when it raises, it is left alone until the next generation.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from math import isfinite
from typing import NamedTuple, ParamSpec, TypeVar, overload

import numpy as np
import numpy.typing as npt

from maglio import _core
from maglio.checks import MAX_TOKEN_ID, check_int
from maglio.decode.constraint import Constraint
from maglio.draft.forced import ForcedTokens
from maglio.draft.source import DEFAULT_LABEL, Draft, DraftSource, Step
from maglio.economics.gate import CostGate, GateEvents
from maglio.engine.base import Logits
from maglio.errors import InvalidArgumentError
from maglio.tokens import is_token

_P = ParamSpec("_P")
_T = TypeVar("_T")

_IN_DOUBT = -1


class StreamView(Sequence[int]):
    """A committed stream as a source sees it: always current, never writable."""

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


class _Heard(NamedTuple):
    """A step that waits to be told, and where it stands in the stream."""

    start: int
    end: int
    step: Step


class Drafter:
    """Drafts for one stream, from a source that need not be trusted.

    It follows the stream: :attr:`length` is how much of it was heard of. What was heard waits until
    :meth:`tell` passes it on, because a source cannot unlearn tokens that are taken back.

    Args:
        source: proposes drafts.
        n_vocab: number of token ids.
        max_draft: most draft tokens of a step.
        gate: switches drafting off where it does not pay; ``None`` drafts always.
        is_used: whether the source may have followed another stream; it then starts again.

    Raises:
        InvalidArgumentError: the source is not a :class:`DraftSource`, its ``topk`` is not a
            count, or ``max_draft`` is under 1.
    """

    def __init__(
        self,
        source: DraftSource,
        n_vocab: int,
        *,
        max_draft: int = 16,
        gate: CostGate | None = None,
        is_used: bool = False,
    ) -> None:
        if not isinstance(source, DraftSource):
            raise InvalidArgumentError(f"the draft source is {source!r:.80}, must be a DraftSource")
        check_int("max_draft", max_draft, 1, MAX_TOKEN_ID)
        check_int("topk of the draft source", source.topk, 0, MAX_TOKEN_ID)
        self.source = source
        self.error: str | None = None
        self._n_vocab = n_vocab
        self._topk = min(source.topk, n_vocab)
        self._max_draft = max_draft
        self._gate = gate
        # Tokens of the stream that the source was told of.
        self._told = _IN_DOUBT if is_used else 0
        self._waiting: list[_Heard] = []
        self._forced = ForcedTokens()
        self._warned = False

    @property
    def length(self) -> int:
        """Tokens of the stream that were heard of."""
        return self._waiting[-1].end if self._waiting else max(0, self._told)

    @property
    def gate_events(self) -> GateEvents:
        """What the gate did so far."""
        return GateEvents() if self._gate is None else self._gate.events

    def revive(self) -> None:
        """Give the source another chance: a new generation starts."""
        self.error = None

    def best(self, rows: Logits) -> npt.NDArray[np.int32] | None:
        """The candidates that the source wants of ``rows``, ``(k, n_vocab)``."""
        if self._topk == 0 or self.error is not None:
            return None
        return _core.topk_rows(rows, self._topk)

    def hear(self, step: Step) -> None:
        """Take note of a step; it follows what was heard before."""
        if self.error is None and step.tokens:
            self._forced.learn(step)
            start = self.length
            self._waiting.append(_Heard(start, start + len(step.tokens), step))

    def follow(self, stream: Sequence[int], *, kept: int) -> None:
        """Have heard ``stream``, whose first ``kept`` tokens are what was heard before."""
        if self.length > kept:
            self.rewind(stream[:kept])
        if self.length < len(stream):
            self.hear(Step(stream[self.length :]))

    def tell(self, stream: Sequence[int], settled: int) -> bool:
        """Pass on the steps of which all tokens stay.

        Args:
            stream: all committed tokens.
            settled: how many of them are sure to stay.

        Returns:
            Whether the source knows the whole stream now.
        """
        if self._told == _IN_DOUBT and self.error is None:
            self._restore(stream[: self._waiting[0].start if self._waiting else settled])
        while self._waiting and self._waiting[0].end <= settled and self.error is None:
            _, end, step = self._waiting[0]
            # An interrupt from here on leaves open what the source took in: it is then rewound.
            self._told = _IN_DOUBT
            del self._waiting[0]
            self._guarded(self.source.observe, step)
            if self.error is None:
                self._told = end
        return self._told == len(stream)

    def rewind(self, stream: Sequence[int]) -> None:
        """The stream was cut back to ``stream``. The source hears of it if it was told more."""
        kept = len(stream)
        while self._waiting and self._waiting[-1].start >= kept:
            self._waiting.pop()
        if self._waiting and self._waiting[-1].end > kept:
            start, _, step = self._waiting[-1]
            self._waiting[-1] = _Heard(start, kept, step.first(kept - start))
        if self._told > kept:
            self._restore(stream)

    def propose(
        self, stream: Sequence[int], limit: int, constraint: Constraint | None = None
    ) -> Draft | None:
        """Ask for a draft of at most ``limit`` tokens, if the gate lets it; cut what cannot be.

        Under a constraint, tokens that it forces are drafted too.
        """
        budget = self._max_draft if self._gate is None else self._gate.budget(self._max_draft)
        limit = min(limit, budget)
        if limit < 1 or self.error is not None:
            return None
        draft = self._guarded(self._ask, stream, limit)
        if constraint is None or self.error is not None:
            return draft
        if draft is not None:
            allowed = constraint.admissible(draft.tokens)
            draft = draft.first(allowed) if allowed > 0 else None
        return self._forced.join(draft, constraint.forced()[:limit])

    def judge(self, *, rows: int, committed: int, beside: int) -> None:
        """Let the gate weigh a step: rows of the stream, tokens committed, rows of others."""
        if self._gate is not None:
            self._gate.record(rows=rows, committed=committed, beside=beside)

    def parts(self) -> Mapping[str, bool]:
        """The parts of the source by name, and whether each is muted now."""
        return self._guarded(self._parts) or {}

    def _restore(self, stream: Sequence[int]) -> None:
        """Bring the source back to a beginning of the stream."""
        self._told = _IN_DOUBT
        self._guarded(self.source.rewind, stream)
        if self.error is None:
            self._told = len(stream)

    def _ask(self, stream: Sequence[int], limit: int) -> Draft | None:
        draft = self.source.propose(stream, limit)
        if draft is None:
            return None
        tokens = _valid_tokens(draft.tokens, limit, self._n_vocab)
        odds = _valid_odds(draft.odds, len(tokens))
        if odds:
            del tokens[len(odds) :]
        label = draft.source if isinstance(draft.source, str) else DEFAULT_LABEL
        return Draft(tokens, label, odds) if tokens else None

    def _parts(self) -> dict[str, bool]:
        return {str(name): bool(muted) for name, muted in self.source.parts().items()}

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
                f"draft source {type(self.source).__name__} raised {self.error}; no drafts from "
                "it for the rest of this generation (the output is not affected)",
                RuntimeWarning,
                stacklevel=2,
            )


def _valid_tokens(proposed: Sequence[int], limit: int, n_vocab: int) -> list[int]:
    """The first ``limit`` tokens, cut before the first that is not one."""
    tokens: list[int] = []
    for token in islice(proposed, limit):
        if type(token) is not int or not 0 <= token < n_vocab:
            if not is_token(token, n_vocab):
                break
            token = int(token)
        tokens.append(token)
    return tokens


def _valid_odds(proposed: Sequence[float], limit: int) -> Sequence[float]:
    """The first ``limit`` odds, as probabilities."""
    odds = [float(p) for p in islice(proposed, limit)]
    if odds and not (min(odds) >= 0.0 and max(odds) <= 1.0 and isfinite(sum(odds))):
        odds = [min(1.0, max(0.0, p)) for p in odds]
    return odds
