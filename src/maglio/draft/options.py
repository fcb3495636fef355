"""Every constant of the cascade, in one checked value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from maglio.checks import MAX_TOKEN_ID, check_int, check_real
from maglio.draft.recycling import DEFAULT_PAIR_SLOTS
from maglio.draft.suffix import DEFAULT_TOKEN_CAP
from maglio.economics.cost import NATIVE_COST, CostModel
from maglio.errors import InvalidArgumentError

PolicyName = Literal["record", "calibrated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOptions:
    """How drafts are found, chosen and cut.

    Attributes:
        policy: ``record``: fixed rules; ``calibrated``: learnt acceptance against measured cost.
        conversation: whether to draft from the stream itself.
        recycling: whether to draft from recycled logits.
        pair_slots: size of the recycling table keyed by two tokens; 0 is none.
        min_match: shortest match, in tokens, that the record policy drafts from. The calibrated one
            learns what short matches are worth.
        budget_factor: a match of ``n`` tokens is worth ``budget_factor * (1 + n)`` draft tokens
            under the record policy.
        max_recycled: most draft tokens from recycling.
        window: a source is judged by this many of its latest draft tokens.
        min_acceptance: a full window below this share mutes the source.
        mute_for: committed tokens that a source stays muted; 0 switches muting off. Only the
            record policy mutes: the calibrated one drafts nothing where nothing is accepted.
        token_cap: tokens of the stream to index; a full index restarts from its last quarter.
        cost: what a forward costs, for the calibrated policy.
        margin: the calibrated policy drafts when it expects this share more than a plain step
            gives for the same time.

    Raises:
        InvalidArgumentError: a field is out of its range.
    """

    policy: PolicyName = "record"
    conversation: bool = True
    recycling: bool = True
    pair_slots: int = DEFAULT_PAIR_SLOTS
    min_match: int = 2
    budget_factor: int = 2
    max_recycled: int = 8
    window: int = 64
    min_acceptance: float = 0.2
    mute_for: int = 128
    token_cap: int = DEFAULT_TOKEN_CAP
    cost: CostModel = NATIVE_COST
    margin: float = 0.05

    def __post_init__(self) -> None:
        if self.policy not in get_args(PolicyName):
            names = " or ".join(get_args(PolicyName))
            raise InvalidArgumentError(f"policy is {self.policy!r}, must be {names}")
        for name in ("min_match", "budget_factor", "max_recycled", "window"):
            check_int(name, getattr(self, name), 1, MAX_TOKEN_ID)
        check_int("mute_for", self.mute_for, 0, MAX_TOKEN_ID)
        check_real("min_acceptance", self.min_acceptance, 0, 1)
        check_real("margin", self.margin, 0, 1)

    @property
    def mutes(self) -> bool:
        """Whether sources are muted at all."""
        return self.policy == "record" and self.mute_for > 0
