"""How many draft tokens each stream of a forward gets. Decides by expectation; measures nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

from maglio.economics.cost import CostModel

_LOOK_AHEAD = 8
"""Rows over which the price of one is averaged: costs rise in steps."""

_BEST_ODDS = 0.95
"""No draft token is more certain than this for long."""


def allot(odds: Sequence[Sequence[float]], cost: CostModel, *, beside: int = 0) -> list[int]:
    """Choose draft lengths that maximise expected tokens over the cost of one forward.

    Every stream commits one token for its own row, and one more for each draft token that is
    accepted. A draft token counts with the probability that it and all before it are accepted.
    These products fall along a draft, so taking them in falling order keeps drafts whole from
    their beginning, and the best set is a prefix of that order.

    Args:
        odds: for each stream, the acceptance probability of each draft token given all before it;
            empty for a stream that drafts nothing.
        cost: what a forward costs by its rows.
        beside: rows of the same forward that belong to none of these streams.

    Returns:
        For each stream how many of its draft tokens to verify.
    """
    lengths = [0] * len(odds)
    offers = [
        (-survival, stream)
        for stream, hazards in enumerate(odds)
        for survival in accumulate(hazards, mul)
    ]
    if len(odds) > 1:
        offers.sort(key=lambda offer: offer[0])  # stable: a draft's own order stands
    rows, expected = beside + len(odds), float(len(odds))
    best, best_gain = 0, expected / cost.cost(rows) if rows else 0.0
    for n, (negative, _) in enumerate(offers, start=1):
        expected -= negative
        gain = expected / cost.cost(rows + n)
        if gain > best_gain:
            best, best_gain = n, gain
    for _, stream in offers[:best]:
        lengths[stream] += 1
    return lengths


def could_pay(streams: int, cost: CostModel) -> bool:
    """Whether any draft could pay beside so many streams, if nearly all of it were accepted.

    A row costs all streams time and can bring one of them a token. Where an engine computes as fast
    as it can already, no draft is worth that, and asking for drafts is time lost.
    """
    if streams < 2:
        return True
    base = cost.cost(streams)
    per_row = min((cost.cost(streams + k) - base) / k for k in range(1, _LOOK_AHEAD + 1))
    return streams * per_row / base < _BEST_ODDS
