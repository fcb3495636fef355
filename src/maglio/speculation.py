"""How drafting is set up: the options a user gives, and what a decoder gets for them.

Boundary: chooses and joins parts of :mod:`maglio.draft` and :mod:`maglio.decode`; knows no text, no
engine and no generation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from maglio.decode import DecodeOptions, SamplingParams
from maglio.draft.calibration import Calibrations
from maglio.draft.cascade import SpeculationIndex
from maglio.draft.options import IndexOptions, PolicyName
from maglio.draft.past_streams import PastStreams
from maglio.draft.source import DraftSource
from maglio.economics.cost import NATIVE_COST, CostModel
from maglio.economics.gate import CostGate, GateOptions
from maglio.economics.live_cost import LiveCost
from maglio.errors import InvalidArgumentError

DEFAULT_POLICY: PolicyName = "calibrated"

RECORD_GATE = GateOptions()
CALIBRATED_GATE = GateOptions(window=64, patience=4.0, probe_steps=8, adapts_budget=False)
"""For drafts that are cut where they stop to pay: gains per step are small then, and a window of a
few steps cannot tell them from losses. It waits until 4 plain steps are lost; lengths are the
policy's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """How drafting works. It changes speed, never output.

    Attributes:
        policy: ``record``: fixed rules; ``calibrated``: learnt acceptance against ``cost``.
        max_draft: most draft tokens per verify step.
        min_draft: shorter drafts are not verified; by default 2, and 1 under the calibrated
            policy, which knows itself when a draft of one token pays.
        min_match: shortest repetition, in tokens, worth drafting from.
        recycling: whether to draft from recycled logits where nothing repeats. By default under
            the record policy only: under the calibrated one they gain nothing.
        window: under the record policy, a source is judged by this many of its latest draft
            tokens,
        min_acceptance: is muted when a smaller share of them was accepted,
        mute_for: and returns after this many generated tokens; 0 switches muting off.
        gate: whether drafting is switched off while it does not pay; or how.
        cost: what a forward costs by its rows. By default this machine's profile of the model,
            made by ``maglio probe``, or a built-in table.
        history: whether a generation drafts from earlier ones of the same :class:`~maglio.Model`,
            goes on with what they taught about the sources, and lets later ones do so, in memory.
            A prompt that is repeated then goes fast for a reason that says little about others.
            Needs the calibrated policy. Conversations keep to themselves; for them there is
            ``warm`` of :meth:`maglio.Model.chat`.
        source: a proposer of your own, used instead of the built-in ones.

    Raises:
        InvalidArgumentError: a field is out of its range.
    """

    policy: PolicyName = DEFAULT_POLICY
    max_draft: int = 16
    min_draft: int | None = None
    min_match: int = 2
    recycling: bool | None = None
    window: int = 64
    min_acceptance: float = 0.2
    mute_for: int = 128
    gate: bool | GateOptions = True
    cost: CostModel | None = None
    history: bool = False
    source: DraftSource | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.gate, (bool, GateOptions)):
            raise InvalidArgumentError(f"gate is {self.gate!r}, must be True, False or GateOptions")
        if self.recycling not in (None, True, False):
            raise InvalidArgumentError(
                f"recycling is {self.recycling!r}, must be True, False or None"
            )
        if self.history not in (True, False):
            raise InvalidArgumentError(f"history is {self.history!r}, must be True or False")
        if self.history and self.policy != "calibrated":
            raise InvalidArgumentError(
                f"history needs the calibrated policy, and policy is {self.policy!r}"
            )
        if self.source is not None and not isinstance(self.source, DraftSource):
            raise InvalidArgumentError(
                f"source is {self.source!r:.80}, must have the methods suggest and observe"
            )
        self._decode_options()
        self._index_options(NATIVE_COST)

    def _decode_options(self) -> DecodeOptions:
        min_draft = self.min_draft
        if min_draft is None:
            min_draft = 1 if self.policy == "calibrated" else min(2, self.max_draft)
        return DecodeOptions(max_draft=self.max_draft, min_draft=min_draft)

    def _gate(self, cost: LiveCost) -> CostGate | None:
        if self.gate is False:
            return None
        if isinstance(self.gate, GateOptions):
            return CostGate(cost, options=self.gate)
        calibrated = self.policy == "calibrated" and self.source is None
        return CostGate(cost, options=CALIBRATED_GATE if calibrated else RECORD_GATE)

    def _index_options(self, cost: CostModel) -> IndexOptions:
        return IndexOptions(
            policy=self.policy,
            recycling=self.policy == "record" if self.recycling is None else self.recycling,
            min_match=self.min_match,
            window=self.window,
            min_acceptance=self.min_acceptance,
            mute_for=self.mute_for,
            cost=cost,
        )


class Drafting(NamedTuple):
    """What a decoder needs to draft; all ``None`` without speculation."""

    source: DraftSource | None = None
    options: DecodeOptions | None = None
    gate: CostGate | None = None


class Drafter:
    """Sets up drafting for the streams of one model, and keeps what they teach.

    Args:
        n_vocab: number of token ids.
        cost: tells what a forward costs; asked when drafting is set up.
    """

    def __init__(self, n_vocab: int, cost: Callable[[], CostModel]) -> None:
        self._n_vocab = n_vocab
        self._cost = cost
        self._past = PastStreams()
        # What is sampled repeats itself less than what is chosen greedily.
        self._learnt = {True: Calibrations(), False: Calibrations()}

    def begin(
        self, speculation: bool | Speculation, sampling: SamplingParams, *, joins_past: bool
    ) -> Drafting:
        """Set up drafting for a new stream.

        Args:
            speculation: whether, or how, to draft.
            sampling: how the stream's tokens will be chosen.
            joins_past: whether the stream may draft from earlier ones, and later ones from it.

        Raises:
            InvalidArgumentError: ``speculation`` is something else.
            OutOfMemoryError: there is no memory for the tables.
        """
        if speculation is False:
            return Drafting()
        how = Speculation() if speculation is True else speculation
        if not isinstance(how, Speculation):
            raise InvalidArgumentError(
                f"speculation must be True, False or a Speculation, not {speculation!r}"
            )
        cost = LiveCost(self._cost() if how.cost is None else how.cost)
        joins = joins_past and how.history
        source = (
            how.source
            if how.source is not None
            else SpeculationIndex(
                self._n_vocab,
                options=how._index_options(cost),
                past=self._past if joins else None,
                calibrations=self._learnt[sampling.temperature <= 0.0] if joins else None,
            )
        )
        return Drafting(source, how._decode_options(), how._gate(cost))
