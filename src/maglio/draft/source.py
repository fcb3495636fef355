"""The drafting seam: token ids in, token ids out. No model, no text.

A source proposes how a stream might go on. It can be wrong at will: every proposal is verified, so
a source only ever changes speed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from maglio.economics.gate import CALIBRATED_GATE, GateOptions

DEFAULT_LABEL = "draft"


@dataclass(frozen=True, slots=True)
class Draft:
    """Tokens that may follow a stream.

    Attributes:
        tokens: the draft tokens.
        source: who predicted them, such as ``conversation`` or ``reference:0``.
        odds: for each token the probability that it is accepted if all before it are. The draft is
            then cut where it stops to pay. Empty: it is verified whole.
    """

    tokens: Sequence[int]
    source: str = DEFAULT_LABEL
    odds: Sequence[float] = ()

    def first(self, n: int) -> Draft:
        """Its first ``n`` tokens."""
        return Draft(self.tokens[:n], self.source, self.odds[:n])


@dataclass(frozen=True, slots=True)
class Step:
    """What happened to a stream: a prompt was given, or a forward committed tokens.

    Attributes:
        tokens: what was committed, in order.
        fed: the tokens of the forward that wanted rows: the last one before ``tokens`` and the
            draft. Empty for a prompt.
        draft: the draft as far as it was judged. A rejected token spends the rest of its draft
            too; what lay behind the end of a generation was not judged. ``None`` without one.
        accepted: how many draft tokens were accepted.
        top: int32 ``(len(fed), k)``: the ids of the k best candidates of each row, best first, the
            rows after rejected draft tokens too. ``None`` if the source asked for none.
    """

    tokens: Sequence[int]
    fed: Sequence[int] = ()
    draft: Draft | None = None
    accepted: int = 0
    top: npt.NDArray[np.int32] | None = None

    def first(self, n: int) -> Step:
        """The same step if only its first ``n`` tokens stay in the stream."""
        if n >= len(self.tokens):
            return self
        return Step(
            self.tokens[:n],
            self.fed[:n],
            None if self.draft is None else self.draft.first(n),
            min(self.accepted, n),
            None if self.top is None else self.top[:n],
        )


class DraftSource:
    """Anything deterministic that proposes draft tokens: inherit, and write two methods.

    Every committed token reaches :meth:`observe` once, in order, before the next :meth:`propose`.

    Attributes:
        topk: how many candidates per row :attr:`Step.top` should have; 0 saves the work.
        gate: the constants of the cost gate that suit the drafts of this source.
    """

    topk: int = 0
    gate: GateOptions = CALIBRATED_GATE

    def propose(self, stream: Sequence[int], limit: int) -> Draft | None:
        """Propose at most ``limit`` tokens, at least 1, to follow ``stream``; ``None`` for none.

        Args:
            stream: all committed tokens, prompts included; it cannot be written to.
            limit: the most draft tokens that can be verified.
        """
        raise NotImplementedError

    def observe(self, step: Step) -> None:
        """Take note of what was committed."""
        raise NotImplementedError

    def rewind(self, stream: Sequence[int]) -> None:
        """Take note that the stream was cut back to ``stream``, a beginning of what was observed.

        A source that keeps no state of the stream can leave this out.
        """

    def parts(self) -> Mapping[str, bool]:
        """Names of the parts that drafts come from, and whether each is muted now."""
        return MappingProxyType({})
