"""The calibrated policy: draft as much as pays, by learnt acceptance and the cost of a forward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from maglio.checks import MAX_TOKEN_ID, check_int, check_real
from maglio.draft.calibration import Calibration, Calibrations, Forecast
from maglio.draft.member import Guess, Member
from maglio.draft.source import Draft, Step
from maglio.economics.cost import CostModel
from maglio.economics.gate import CALIBRATED_GATE

_NEGLIGIBLE = 0.01
"""A draft token that is reached less often than this is worth no row on any engine."""


class _Pending(NamedTuple):
    """A guess of a member, to be compared with what is committed."""

    calibration: Calibration
    forecast: Forecast


class CalibratedPolicy:
    """Drafts the tokens that maximise ``(1 + expected accepted) / cost(1 + k)``.

    ``k = 0``, a plain step, is a choice like any other. Of all guesses of all members, the one that
    promises most drafts, ties go to the first; recycling drafts where nobody else has a guess.
    Every guess is compared with what is committed, whether it was verified or not, so a kind of
    guess that is not worth drafting is still learnt about, at no cost in rows.

    Args:
        cost: what a forward costs.
        calibrations: what earlier streams taught, to go on from and to add to; nothing at first
            when ``None``.
        margin: a draft must promise this share more than a plain step gives in the same time.
        max_recycled: most draft tokens from recycling.

    Raises:
        InvalidArgumentError: an argument is out of range.
    """

    gate = CALIBRATED_GATE

    def __init__(
        self,
        cost: CostModel,
        *,
        calibrations: Calibrations | None = None,
        margin: float = 0.05,
        max_recycled: int = 8,
    ) -> None:
        check_real("margin", margin, 0.0, 1.0)
        check_int("max_recycled", max_recycled, 1, MAX_TOKEN_ID)
        self._cost = cost
        self._shared = calibrations
        self._own: dict[tuple[str, str], Calibration] = {}  # by member and kind of guess
        self._margin = margin
        self._max_recycled = max_recycled
        self._forecasts: list[_Pending] = []
        self._answering = False  # whether drafts were asked for since the last prompt

    def choose(
        self, matching: Sequence[Member], recycling: Member | None, limit: int
    ) -> Draft | None:
        """See :class:`~maglio.draft.cascade.Policy`."""
        self._answering = True
        self._forecasts.clear()
        best: Draft | None = None
        best_gain = 1.0 + self._margin
        for name, guess in self._guesses(matching, recycling, limit):
            calibration = self._calibration(name, guess.kind)
            forecast = Forecast.of(guess.agreed, guess.tokens, guess.evidence)
            self._forecasts.append(_Pending(calibration, forecast))
            odds, gain = self._worth(calibration, forecast)
            if gain > best_gain:
                best, best_gain = Draft(forecast.tokens, name, odds), gain
        return best

    def learn(self, step: Step) -> None:
        """Compare every guess with what was committed."""
        if not step.fed:  # a prompt, which nobody predicted
            if self._answering:
                self._begin_turn()
            self._answering = False
        else:
            for calibration, forecast in self._forecasts:
                calibration.learn(forecast, step.tokens)
        self._forecasts.clear()

    def muted(self, name: str) -> bool:
        """Nobody is muted: where nothing is accepted, nothing is drafted."""
        return False

    def forget(self, name: str) -> None:
        """A new member starts from the built-in table, or from what streams share of its kind."""
        for key in [key for key in self._own if key[0] == name]:
            del self._own[key]

    def _guesses(
        self, matching: Sequence[Member], recycling: Member | None, limit: int
    ) -> Iterator[tuple[str, Guess]]:
        """All guesses, with the names of their members.

        Recycling is asked only where nobody else has a guess: a match is right more often.
        """
        found = False
        for member in matching:
            for guess in member.guesses(limit):
                found = True
                yield member.name, guess
        if recycling is not None and not found:
            for guess in recycling.guesses(min(limit, self._max_recycled)):
                yield recycling.name, guess

    def _worth(self, calibration: Calibration, forecast: Forecast) -> tuple[list[float], float]:
        """The odds of a draft, and the tokens per plain step's time at its best length alone."""
        cost = self._cost.cost
        odds: list[float] = []
        best = all_accepted = expected = 1.0
        for rows, cell in enumerate(forecast.cells, start=2):
            hazard = calibration.hazard(cell)
            odds.append(hazard)
            all_accepted *= hazard
            expected += all_accepted
            gain = expected / cost(rows)
            if gain > best:
                best = gain
            if all_accepted < _NEGLIGIBLE:
                break
        return odds, best

    def _calibration(self, name: str, kind: str) -> Calibration:
        """What is known of a kind of guess; members share it if streams do."""
        if self._shared is not None:
            return self._shared.of(kind)
        found = self._own.get((name, kind))
        if found is None:
            found = self._own[name, kind] = Calibration(kind)
        return found

    def _begin_turn(self) -> None:
        for calibration in self._own.values() if self._shared is None else self._shared.all():
            calibration.begin_turn()
