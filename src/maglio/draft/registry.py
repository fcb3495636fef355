"""The draft sources that come with Maglio, by name, and what any of them is made for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from maglio.draft.calibrated import CalibratedPolicy
from maglio.draft.cascade import Cascade
from maglio.draft.past import History
from maglio.draft.record import RecordOptions, RecordPolicy
from maglio.draft.source import DraftSource
from maglio.economics.cost import CostModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The stream that a source is made for.

    Attributes:
        n_vocab: number of token ids.
        cost: what a forward costs at present.
        greedy: whether its tokens are chosen greedily.
        history: the earlier streams that it may draft from; ``None`` for none.
    """

    n_vocab: int
    cost: CostModel
    greedy: bool = True
    history: History | None = None


SourceFactory = Callable[[Setting], DraftSource]
"""Makes the source of one stream."""


def calibrated(*, recycling: bool = False, margin: float = 0.05) -> SourceFactory:
    """The product's policy: drafts as much as pays, by learnt acceptance and measured cost.

    Args:
        recycling: whether to draft from recycled logits where nothing matches. It gained nothing
            in our measurements (docs/lab/drafting.md).
        margin: see :class:`~maglio.draft.calibrated.CalibratedPolicy`.
    """

    def make(setting: Setting) -> DraftSource:
        history = setting.history
        learnt = None if history is None else history.calibrations(greedy=setting.greedy)
        policy = CalibratedPolicy(setting.cost, calibrations=learnt, margin=margin)
        index = None if history is None else history.index()
        return Cascade(setting.n_vocab, policy, recycling=recycling, history=index)

    return make


def record(
    options: RecordOptions | None = None, *, conversation: bool = True, recycling: bool = True
) -> SourceFactory:
    """The record policy: fixed rules, muting, recycling. The baseline; it has no use for a history.

    Args:
        options: its constants.
        conversation: whether to draft from the stream itself.
        recycling: whether to draft from recycled logits where nothing matches.
    """

    def make(setting: Setting) -> DraftSource:
        policy = RecordPolicy(options)
        return Cascade(setting.n_vocab, policy, conversation=conversation, recycling=recycling)

    return make


SOURCES: dict[str, SourceFactory] = {
    "calibrated": calibrated(),
    "record": record(),
    "recycling": record(conversation=False),
}
"""The sources that can be asked for by name."""
