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
from maglio.bench.replay import Limits
from maglio.draft.calibration import Calibrations
from maglio.draft.cascade import SpeculationIndex
from maglio.draft.options import IndexOptions
from maglio.draft.past_streams import PastStreams
from maglio.draft.source import DraftSource
from maglio.draft.suffix import ConversationSource
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
        limits: how long its drafts may be.
        uses_cost: whether the cost of a forward changes its drafts.
    """

    open: Callable[[Bench], MakeSource]
    limits: Limits
    uses_cost: bool = False


RECORD_LIMITS = Limits(16, 2)
CALIBRATED_LIMITS = Limits(16, 1)


class NoDrafts:
    """Plain decoding."""

    def suggest(self, context: Sequence[int], limit: int) -> Sequence[int]:
        """Propose nothing."""
        return []

    def observe(self, committed: Sequence[int]) -> None:
        """Learn nothing."""


def _record(bench: Bench, *, conversation: bool = True) -> MakeSource:
    options = IndexOptions(policy="record", conversation=conversation)
    return lambda: SpeculationIndex(bench.n_vocab, options=options)


def _calibrated(bench: Bench, *, history: bool) -> MakeSource:
    options = IndexOptions(policy="calibrated", recycling=False, cost=bench.cost)
    past = PastStreams() if history else None
    learnt = Calibrations() if history else None
    return lambda: SpeculationIndex(bench.n_vocab, options=options, past=past, calibrations=learnt)


def _ngram_mod(bench: Bench) -> MakeSource:
    table = NgramModTable()
    return lambda: NgramModSource(table)


def _suffix_decoding(bench: Bench) -> MakeSource:
    past = PastOutputs()
    return lambda: SuffixDecodingSource(past)


POLICIES: Mapping[str, Policy] = {
    "none": Policy(lambda bench: NoDrafts, RECORD_LIMITS),
    "record": Policy(_record, RECORD_LIMITS),
    "calibrated": Policy(partial(_calibrated, history=False), CALIBRATED_LIMITS, uses_cost=True),
    "calibrated-history": Policy(
        partial(_calibrated, history=True), CALIBRATED_LIMITS, uses_cost=True
    ),
    "suffix-only": Policy(lambda bench: ConversationSource, RECORD_LIMITS),
    "recycling": Policy(partial(_record, conversation=False), RECORD_LIMITS),
    "prompt-lookup": Policy(lambda bench: PromptLookupSource, Limits(10, 1)),
    "ngram-simple": Policy(lambda bench: NgramSimpleSource, Limits(48, 1)),
    "ngram-mod": Policy(_ngram_mod, Limits(64, 1)),
    "suffix-decoding": Policy(lambda bench: SuffixDecodingSource, Limits(16, 1)),
    "suffix-decoding-global": Policy(_suffix_decoding, Limits(16, 1)),
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
