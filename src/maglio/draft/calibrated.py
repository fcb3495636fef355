"""The calibrated policy: draft as much as pays, by learnt acceptance and the cost of a forward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from maglio.draft.calibration import Calibration, cell_of
from maglio.draft.member import Member
from maglio.draft.options import IndexOptions
from maglio.draft.policy import Choice


class _Forecast(NamedTuple):
    """What a member would draft, to be compared with what is committed."""

    calibration: Calibration
    agreed: int
    draft: list[int]


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
        self._forecasts: list[_Forecast] = []

    def choose(
        self, matched: Sequence[Member], recycling: Member | None, limit: int
    ) -> Choice | None:
        """See :class:`~maglio.draft.policy.DraftPolicy`."""
        self._forecasts.clear()
        best: Choice | None = None
        best_gain = 1.0 + self._options.margin
        for member, agreed, most in self._candidates(matched, recycling, limit):
            forecast = _Forecast(member.calibration, agreed, member.draft(most))
            self._forecasts.append(forecast)
            length, gain = self._best_length(forecast)
            if gain > best_gain:
                best, best_gain = Choice(member, forecast.draft[:length]), gain
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

    def _best_length(self, forecast: _Forecast) -> tuple[int, float]:
        """The length with the most tokens per plain step's time, and how many these are."""
        hazards = forecast.calibration.hazards()
        cost = self._options.cost.cost
        best_length, best_gain = 0, 1.0
        all_accepted = expected = 1.0
        for k in range(1, len(forecast.draft) + 1):
            all_accepted *= hazards[cell_of(forecast.agreed + k - 1)]
            expected += all_accepted
            gain = expected / cost(1 + k)
            if gain > best_gain:
                best_length, best_gain = k, gain
        return best_length, best_gain

    def learn(self, committed: Sequence[int]) -> None:
        """Compare what every member would have drafted with what was committed."""
        for calibration, agreed, draft in self._forecasts:
            calibration.learn(agreed, draft, committed)
        self._forecasts.clear()

    def forget(self, tried: int) -> None:
        """Learn nothing beyond the first ``tried`` tokens of the forecasts."""
        self._forecasts = [f._replace(draft=f.draft[:tried]) for f in self._forecasts]
