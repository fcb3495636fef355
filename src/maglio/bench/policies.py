"""The drafting policies that can be replayed, by name: ours, their parts, and the peers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from maglio.bench.peers import (
    NgramModSource,
    NgramModTable,
    NgramSimpleSource,
    PastOutputs,
    PromptLookupSource,
    SuffixDecodingSource,
)
from maglio.draft.past import History
from maglio.draft.registry import Setting, SourceFactory, calibrated, record
from maglio.draft.source import Draft, DraftSource, Step
from maglio.economics.cost import CostModel
from maglio.errors import InvalidArgumentError

MakeSource = Callable[[], DraftSource]


@dataclass(frozen=True, slots=True)
class Bench:
    """What a policy is built for.

    Attributes:
        n_vocab: number of token ids.
        cost: what a forward costs.
    """

    n_vocab: int
    cost: CostModel


@dataclass(frozen=True, slots=True)
class Policy:
    """A way to draft.

    Attributes:
        open: begins a data set; what it returns makes the source of each stream in turn.
        max_draft: most draft tokens of a step.
        uses_cost: whether the cost of a forward changes its drafts.
        predicts: whether it is told what an answer is made from, as a prediction.
    """

    open: Callable[[Bench], MakeSource]
    max_draft: int = 16
    uses_cost: bool = False
    predicts: bool = False


class NoDrafts(DraftSource):
    """Plain decoding."""

    def propose(self, stream: Sequence[int], limit: int) -> Draft | None:
        """Propose nothing."""
        return None

    def observe(self, step: Step) -> None:
        """Learn nothing."""


def _built_in(bench: Bench, *, make: SourceFactory, history: bool = False) -> MakeSource:
    past = History() if history else None

    def begin() -> DraftSource:
        setting = Setting(n_vocab=bench.n_vocab, cost=bench.cost, history=past)
        source = make(setting)
        return source if past is None else _Remembering(source, past)

    return begin


class _Remembering(DraftSource):
    """A source whose stream becomes part of a history as it comes."""

    def __init__(self, source: DraftSource, past: History) -> None:
        self.topk = source.topk
        self._source = source
        self._past = past

    def propose(self, stream: Sequence[int], limit: int) -> Draft | None:
        """Propose what the source proposes."""
        return self._source.propose(stream, limit)

    def observe(self, step: Step) -> None:
        """Pass a step on, and remember its tokens."""
        self._past.add(step.tokens)
        self._source.observe(step)


def _ngram_mod(bench: Bench) -> MakeSource:
    table = NgramModTable()
    return lambda: NgramModSource(table)


def _suffix_decoding(bench: Bench) -> MakeSource:
    past = PastOutputs()
    return lambda: SuffixDecodingSource(past)


POLICIES: Mapping[str, Policy] = {
    "none": Policy(lambda bench: NoDrafts),
    "record": Policy(partial(_built_in, make=record())),
    "calibrated": Policy(partial(_built_in, make=calibrated()), uses_cost=True),
    "calibrated-history": Policy(
        partial(_built_in, make=calibrated(), history=True), uses_cost=True
    ),
    "calibrated-prediction": Policy(
        partial(_built_in, make=calibrated()), uses_cost=True, predicts=True
    ),
    "suffix-only": Policy(partial(_built_in, make=record(recycling=False))),
    "recycling": Policy(partial(_built_in, make=record(conversation=False))),
    "prompt-lookup": Policy(lambda bench: PromptLookupSource, max_draft=10),
    "ngram-simple": Policy(lambda bench: NgramSimpleSource, max_draft=48),
    "ngram-mod": Policy(_ngram_mod, max_draft=64),
    "suffix-decoding": Policy(lambda bench: SuffixDecodingSource),
    "suffix-decoding-global": Policy(_suffix_decoding),
}
"""All policies by name."""

PEERS = (
    "prompt-lookup",
    "ngram-simple",
    "ngram-mod",
    "suffix-decoding",
    "suffix-decoding-global",
)
"""The policies of other systems."""


def find_policies(names: Sequence[str]) -> dict[str, Policy]:
    """The policies of these names, in their order.

    Raises:
        InvalidArgumentError: a name is unknown.
    """
    for name in names:
        if name not in POLICIES:
            known = ", ".join(POLICIES)
            raise InvalidArgumentError(f"there is no policy {name!r}; known are {known}")
    return {name: POLICIES[name] for name in names}
