"""The calibrated policy: draft as much as pays, by learnt acceptance and the cost of a forward."""

from __future__ import annotations

from collections.abc import Sequence
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

    ``k = 0``, a plain step, is a choice like any other. The longest match drafts, and recycling
    where nothing matches, as under the record policy. Every member's draft is compared with what
    is committed, whether it was verified or not, so a source that is not worth drafting from is
    still learnt about, at no cost in rows.
    """

    def __init__(self, options: IndexOptions) -> None:
        self._options = options
        self._forecasts: list[_Forecast] = []

    def choose(
        self, matched: Sequence[Member], recycling: Member | None, limit: int
    ) -> Choice | None:
        """See :class:`~maglio.draft.policy.DraftPolicy`."""
        self._forecasts.clear()
        chosen: tuple[Member, _Forecast] | None = None
        for member in matched:
            match = member.matcher.match_length
            if match >= self._options.min_match:
                forecast = self._foresee(member, match, limit)
                if chosen is None or match > chosen[1].agreed:
                    chosen = member, forecast
        if recycling is not None:
            forecast = self._foresee(recycling, 0, min(limit, self._options.max_recycled))
            chosen = chosen or (recycling, forecast)
        if chosen is None:
            return None
        member, forecast = chosen
        return Choice(member, forecast.draft[: self._best_length(forecast)])

    def _foresee(self, member: Member, agreed: int, limit: int) -> _Forecast:
        forecast = _Forecast(member.calibration, agreed, member.draft(limit))
        self._forecasts.append(forecast)
        return forecast

    def _best_length(self, forecast: _Forecast) -> int:
        hazards = forecast.calibration.hazards()
        cost = self._options.cost.cost
        best_length, best_gain = 0, 1.0 + self._options.margin
        all_accepted = expected = 1.0
        for k in range(1, len(forecast.draft) + 1):
            all_accepted *= hazards[cell_of(forecast.agreed + k - 1)]
            expected += all_accepted
            gain = expected / cost(1 + k)
            if gain > best_gain:
                best_length, best_gain = k, gain
        return best_length

    def learn(self, committed: Sequence[int]) -> None:
        """Compare what every member would have drafted with what was committed."""
        for calibration, agreed, draft in self._forecasts:
            calibration.learn(agreed, draft, committed)
        self._forecasts.clear()

    def forget(self, tried: int) -> None:
        """Learn nothing beyond the first ``tried`` tokens of the forecasts."""
        self._forecasts = [f._replace(draft=f.draft[:tried]) for f in self._forecasts]
