"""How drafting is set up: the options a user gives, and what a stream gets for them.

Boundary: chooses and joins parts of :mod:`maglio.draft`, :mod:`maglio.economics` and
:mod:`maglio.decode`; knows no text, no engine and no generation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from maglio.checks import MAX_TOKEN_ID, check_choice, check_int
from maglio.decode import Drafter, SamplingParams
from maglio.draft.past import History
from maglio.draft.registry import SOURCES, Setting, SourceFactory
from maglio.draft.source import DraftSource
from maglio.economics.cost import CostModel
from maglio.economics.gate import CostGate, GateOptions
from maglio.economics.live_cost import LiveCost
from maglio.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """How drafting works. It changes speed, never output.

    Attributes:
        source: where drafts come from. ``calibrated``: from the stream itself, from references and
            from earlier streams, as much as pays by learnt acceptance and measured cost.
            ``record``: the fixed rules of the system that Maglio follows. ``recycling``: the latter
            from recycled logits alone. Or a :class:`~maglio.draft.source.DraftSource` of your own,
            which serves one stream, or a function that makes one
            (:mod:`maglio.draft.registry` has those of the names, with their options).
        max_draft: most draft tokens per verify step.
        gate: whether drafting is switched off while it does not pay; or how.
        cost: what a forward costs by its rows. By default this machine's profile of the model,
            made by ``maglio probe``, or a built-in table; timings correct it.
        history: the earlier streams to draft from, whose text then counts as seen before. ``True``:
            those of the same :class:`~maglio.Model` that say ``True`` too. A name: those that give
            this name. A :class:`~maglio.History`: those that share it. ``False``: none, and later
            streams do not see this one. At most 65,536 tokens are kept for each; the oldest leave.

    Raises:
        InvalidArgumentError: a field is out of its range.
    """

    source: str | DraftSource | SourceFactory = "calibrated"
    max_draft: int = 16
    gate: bool | GateOptions = True
    cost: CostModel | None = None
    history: bool | str | History = True

    def __post_init__(self) -> None:
        if isinstance(self.source, str):
            check_choice("source", self.source, tuple(SOURCES))
        elif not isinstance(self.source, DraftSource) and not callable(self.source):
            raise InvalidArgumentError(
                f"source is {self.source!r:.80}, must be a name, a DraftSource, or a function that "
                "makes one"
            )
        check_int("max_draft", self.max_draft, 1, MAX_TOKEN_ID)
        if not isinstance(self.gate, (bool, GateOptions)):
            raise InvalidArgumentError(f"gate is {self.gate!r}, must be True, False or GateOptions")
        if self.cost is not None and not callable(getattr(self.cost, "cost", None)):
            raise InvalidArgumentError(f"cost is {self.cost!r:.80}, must be a CostModel or None")
        if not isinstance(self.history, (bool, str, History)):
            raise InvalidArgumentError(
                f"history is {self.history!r:.80}, must be True, False, a name or a History"
            )

    def for_many(self) -> Speculation:
        """The same for streams that share forwards: they learn costs together.

        Raises:
            InvalidArgumentError: the source is one that serves a single stream.
        """
        if isinstance(self.source, DraftSource):
            raise InvalidArgumentError(
                "a draft source serves one stream; give a function that makes one as source of "
                "the Speculation"
            )
        return self if self.cost is None else replace(self, cost=live(self.cost))


def live(cost: CostModel) -> LiveCost:
    """The cost model as one that learns."""
    return cost if isinstance(cost, LiveCost) else LiveCost(cost)


class Drafting(NamedTuple):
    """What a stream needs to draft.

    Attributes:
        drafter: proposes drafts; ``None`` without speculation.
        cost: what a forward costs; learns it.
        history: where the stream is remembered, if anywhere.
    """

    drafter: Drafter | None
    cost: LiveCost
    history: History | None


class DraftingSetup:
    """Sets up drafting for the streams of one model, and keeps what they teach.

    Args:
        n_vocab: number of token ids.
        curve: tells what a forward costs; asked once, when it is first needed.
        can_rewind: whether the engine can drop rejected draft tokens. Without it nothing is
            drafted.
    """

    def __init__(
        self, n_vocab: int, curve: Callable[[], CostModel], *, can_rewind: bool = True
    ) -> None:
        self._n_vocab = n_vocab
        self._curve = curve
        self._can_rewind = can_rewind
        self._histories: dict[str | None, History] = {}

    @cached_property
    def cost(self) -> LiveCost:
        """What a forward costs, as all streams of the model have learnt it."""
        return LiveCost(self._curve())

    def history(self, key: str | None = None) -> History:
        """The history that streams with this key share; ``None`` is that of ``True``."""
        return self._histories.setdefault(key, History())

    def start(self, speculation: bool | Speculation, sampling: SamplingParams) -> Drafting:
        """Set up drafting for a new stream.

        Args:
            speculation: whether, or how, to draft.
            sampling: how the stream's tokens will be chosen.

        Raises:
            InvalidArgumentError: an argument is something else.
            OutOfMemoryError: there is no memory for the tables.
        """
        if not isinstance(speculation, (bool, Speculation)):
            raise InvalidArgumentError(
                f"speculation is {speculation!r:.80}, must be True, False or a Speculation"
            )
        if not isinstance(sampling, SamplingParams):
            raise InvalidArgumentError(f"sampling is {sampling!r:.80}, must be SamplingParams")
        how = speculation if isinstance(speculation, Speculation) else Speculation()
        cost = self.cost if how.cost is None else live(how.cost)
        if speculation is False or not self._can_rewind:
            return Drafting(None, cost, None)
        history = self._history_of(how)
        setting = Setting(
            n_vocab=self._n_vocab,
            cost=cost,
            greedy=sampling.temperature <= 0.0,
            history=history,
        )
        source = self._source(how, setting)
        gate = None
        if how.gate is not False:
            options = how.gate if isinstance(how.gate, GateOptions) else source.gate
            gate = CostGate(cost, options=options)
        drafter = Drafter(
            source,
            self._n_vocab,
            max_draft=how.max_draft,
            gate=gate,
            is_used=source is how.source,
        )
        return Drafting(drafter, cost, history)

    def _history_of(self, how: Speculation) -> History | None:
        if isinstance(how.history, History):
            return how.history
        if how.history is False:
            return None
        return self.history(None if how.history is True else how.history)

    def _source(self, how: Speculation, setting: Setting) -> DraftSource:
        if isinstance(how.source, DraftSource):
            return how.source
        make = SOURCES[how.source] if isinstance(how.source, str) else how.source
        source = make(setting)
        if not isinstance(source, DraftSource):
            raise InvalidArgumentError(
                f"the function given as source returned {source!r:.80}, must return a DraftSource"
            )
        return source
