"""The calibrated policy: draft as much as pays, by learnt acceptance and the cost of a forward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from maglio.draft.calibration import Calibration, Forecast
from maglio.draft.member import Member
from maglio.draft.options import IndexOptions
from maglio.draft.policy import Choice


class _Pending(NamedTuple):
    """What a source would draft, to be compared with what is committed."""

    calibration: Calibration
    forecast: Forecast


class CalibratedPolicy:
    """Drafts the ``k`` tokens that maximise ``(1 + expected accepted) / cost(1 + k)``.

    ``k = 0``, a plain step, is a choice like any other. Of the sources that match, however little,
    the one that promises most drafts, ties go to the first; recycling drafts where none does.
    Every source's draft is compared with what is
    committed, whether it was verified or not, so a source that is not worth drafting from is still
    learnt about, at no cost in rows.
    """

    def __init__(self, options: IndexOptions) -> None:
        self._options = options
        self._forecasts: list[_Pending] = []

    def choose(
        self, matched: Sequence[Member], recycling: Member | None, limit: int
    ) -> Choice | None:
        """See :class:`~maglio.draft.policy.DraftPolicy`."""
        self._forecasts.clear()
        best: Choice | None = None
        best_gain = 1.0 + self._options.margin
        for member, agreed, most in self._candidates(matched, recycling, limit):
            forecast = Forecast.of(agreed, *member.matcher.weighed_draft(most))
            self._forecasts.append(_Pending(member.calibration, forecast))
            length, gain = self._best_length(member.calibration.hazards(forecast))
            if gain > best_gain:
                best, best_gain = Choice(member, forecast.tokens[:length]), gain
        return best

    def _candidates(
        self, matched: Sequence[Member], recycling: Member | None, limit: int
    ) -> Iterator[tuple[Member, int, int]]:
        """The members that may draft, the tokens that agree, and the most they may draft.

        Recycling is asked only where not even one token matches: where a match and a recycled row
        differ, the match is right several times as often (docs/drafting-bench.md).
        """
        matching = [member for member in matched if member.matcher.match_length > 0]
        for member in matching:
            yield member, member.matcher.match_length, limit
        if recycling is not None and not matching:
            yield recycling, 0, min(limit, self._options.max_recycled)

    def _best_length(self, hazards: Sequence[float]) -> tuple[int, float]:
        """The length with the most tokens per plain step's time, and how many these are."""
        cost = self._options.cost.cost
        best_length, best_gain = 0, 1.0
        all_accepted = expected = 1.0
        for k, hazard in enumerate(hazards, start=1):
            all_accepted *= hazard
            expected += all_accepted
            gain = expected / cost(1 + k)
            if gain > best_gain:
                best_length, best_gain = k, gain
        return best_length, best_gain

    def begin_turn(self, members: Sequence[Member]) -> None:
        """See :class:`~maglio.draft.policy.DraftPolicy`."""
        for member in members:
            member.calibration.begin_turn()

    def learn(self, committed: Sequence[int]) -> None:
        """Compare what every member would have drafted with what was committed."""
        for calibration, forecast in self._forecasts:
            calibration.learn(forecast, committed)
        self._forecasts.clear()

    def forget(self, tried: int) -> None:
        """Learn nothing beyond the first ``tried`` tokens of the forecasts."""
        self._forecasts = [
            _Pending(calibration, forecast.first(tried))
            for calibration, forecast in self._forecasts
        ]
