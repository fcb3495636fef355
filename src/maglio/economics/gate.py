"""The cost gate: whether speculation pays at present. Decides when to draft, never what is kept.

Only verify steps can lose time against plain decoding, so only they are judged: by the tokens they
committed over what they cost in plain steps.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from math import ceil
from typing import Literal, NamedTuple

from maglio.checks import MAX_TOKEN_ID, check_int, check_real
from maglio.economics.cost import CostModel
from maglio.errors import InvalidArgumentError

GateState = Literal["on", "off", "probing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """The constants of a gate.

    Attributes:
        window: how many of the latest verify steps are judged together.
        min_verifies: fewer are too noisy to act on,
        min_drafted: and so are fewer draft tokens.
        min_speedup: below this estimate drafting is switched off.
        patience: plain steps that the window must have lost before that; 0 acts at once. Worth its
            price where small gains are common: a window of few steps cannot tell them from losses.
        probe_steps: verify steps of a probe.
        probe_margin: a probe passes when its estimate is this much above ``min_speedup``, so that
            drafting that hardly pays is not switched to and fro.
        reprobe_after: plain steps before the first probe; doubled after every failed one,
        reprobe_max: up to this many.
        adapts_budget: whether draft lengths follow the acceptance rate; otherwise the source
            decides alone.
        min_budget: the shortest length that they fall to then, the source drafting nothing shorter.

    Raises:
        InvalidArgumentError: a field is out of its range, a probe would be empty, or the window
            can never hold ``min_verifies``.
    """

    window: int = 16
    min_verifies: int = 2
    min_drafted: int = 8
    min_speedup: float = 1.0
    patience: float = 0.0
    probe_steps: int = 4
    probe_margin: float = 0.1
    reprobe_after: int = 128
    reprobe_max: int = 1024
    adapts_budget: bool = True
    min_budget: int = 2

    def __post_init__(self) -> None:
        for name in ("window", "min_verifies", "min_drafted"):
            check_int(name, getattr(self, name), 0, MAX_TOKEN_ID)
        for name in ("probe_steps", "reprobe_after", "min_budget"):
            check_int(name, getattr(self, name), 1, MAX_TOKEN_ID)
        if self.window < max(2, self.min_verifies):
            raise InvalidArgumentError(
                f"window is {self.window} verify steps, must be at least "
                f"{max(2, self.min_verifies)}, or nothing can be judged"
            )
        check_int("reprobe_max", self.reprobe_max, self.reprobe_after, MAX_TOKEN_ID)
        for name in ("min_speedup", "patience", "probe_margin"):
            check_real(name, getattr(self, name), 0.0)


CALIBRATED_GATE = GateOptions(window=64, patience=4.0, probe_steps=8, adapts_budget=False)
"""For drafts that are cut where they stop to pay: gains per step are small then, and a window of a
few steps cannot tell them from losses. It waits until 4 plain steps are lost; lengths are the
source's."""


@dataclass(frozen=True, slots=True)
class GateEvents:
    """What a gate did so far.

    Attributes:
        trips: times that drafting was switched off by its results.
        probes: probes begun.
        disabled_steps: plain steps taken because drafting was off.
    """

    trips: int = 0
    probes: int = 0
    disabled_steps: int = 0

    def since(self, earlier: GateEvents) -> GateEvents:
        """What happened after ``earlier``."""
        return GateEvents(
            self.trips - earlier.trips,
            self.probes - earlier.probes,
            self.disabled_steps - earlier.disabled_steps,
        )


class _Width(NamedTuple):
    rows: int
    beside: int  # rows of other streams in the same forward

    def price(self, cost: CostModel) -> float:
        """What it costs, relative to one row in a forward with the same other rows."""
        if self.beside == 0:
            return cost.cost(self.rows)
        return cost.cost(self.beside + self.rows) / cost.cost(self.beside + 1)


class _Verify(NamedTuple):
    width: _Width
    committed: int


class _Window:
    """The latest verify steps and their sums."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.clear()

    def __len__(self) -> int:
        return len(self._verifies)

    def clear(self) -> None:
        self._verifies: deque[_Verify] = deque()
        self._widths: Counter[_Width] = Counter()
        self.committed = 0
        self.drafted = 0

    def add(self, latest: _Verify) -> None:
        if len(self._verifies) == self._size:
            oldest = self._verifies.popleft()
            self._count(oldest, -1)
        self._verifies.append(latest)
        self._count(latest, 1)

    def spent(self, cost: CostModel) -> float:
        """What the steps would cost now, in plain steps."""
        return sum(width.price(cost) * count for width, count in self._widths.items())

    def _count(self, verify: _Verify, sign: int) -> None:
        self._widths[verify.width] += sign
        if self._widths[verify.width] == 0:
            del self._widths[verify.width]
        self.committed += sign * verify.committed
        self.drafted += sign * (verify.width.rows - 1)


class CostGate:
    """Switches drafting off where it loses time, and tries again later.

    ::

        on ---- estimate < min_speedup ----> off <--- estimate too low (wait doubles) ---.
         ^                                    '---- wait is over ----> probing ----------'
         '---- estimate >= min_speedup + probe_margin (wait is reset) -----'

    Args:
        cost: what forwards cost.
        options: the constants.
    """

    def __init__(self, cost: CostModel, *, options: GateOptions | None = None) -> None:
        self._cost = cost
        self._options = options or GateOptions()
        self._window = _Window(self._options.window)
        self._state: GateState = "on"
        self._backoff = self._options.reprobe_after
        self._wait = 0
        self._acceptance = 0.5  # as good a guess as any, until something was drafted
        self._trips = self._probes = self._disabled = 0

    @property
    def state(self) -> GateState:
        """Whether drafts are verified, refused, or tried."""
        return self._state

    @property
    def wait(self) -> int:
        """Plain steps to go before the next probe; 0 unless drafting is off."""
        return self._wait

    @property
    def events(self) -> GateEvents:
        """Counts since the gate was made."""
        return GateEvents(self._trips, self._probes, self._disabled)

    @property
    def estimated_speedup(self) -> float | None:
        """Tokens committed per plain step's time over the window; ``None`` while it is empty."""
        spent = self._window.spent(self._cost)
        return self._window.committed / spent if spent > 0.0 else None

    def budget(self, max_draft: int) -> int:
        """How many draft tokens the next step may verify; 0 asks for a plain step."""
        if self._state == "off":
            return 0
        if not self._options.adapts_budget:
            return max_draft
        adapted = 2 + ceil(self._acceptance * max_draft)
        return min(max_draft, max(self._options.min_budget, adapted))

    def record(self, *, rows: int, committed: int, beside: int = 0) -> None:
        """Take note of a step.

        Args:
            rows: rows that its stream had in the forward: 1, or 1 and a draft.
            committed: tokens it committed; none where the first row has to be computed again.
            beside: rows of other streams in the same forward.
        """
        if self._state == "off":
            self._disabled += 1
            self._wait -= 1
            if self._wait == 0:
                self._begin_probe()
        elif rows > 1:
            window = self._window
            window.add(_Verify(_Width(rows, beside), committed))
            self._acceptance = (window.committed - len(window)) / window.drafted
            if self._state == "probing":
                self._judge_probe()
            else:
                self._judge_run()

    def _judge_run(self) -> None:
        options, window = self._options, self._window
        if len(window) < options.min_verifies or window.drafted < options.min_drafted:
            return
        lost = options.min_speedup * window.spent(self._cost) - window.committed
        if lost > 0.0 and lost >= options.patience:
            self._trips += 1
            self._switch_off()

    def _judge_probe(self) -> None:
        options, window = self._options, self._window
        if len(window) < min(options.probe_steps, options.window):
            return
        wanted = options.min_speedup + options.probe_margin
        if window.committed >= wanted * window.spent(self._cost):
            self._state = "on"
            self._backoff = options.reprobe_after
        else:
            self._backoff = min(2 * self._backoff, options.reprobe_max)
            self._switch_off()

    def _switch_off(self) -> None:
        self._state = "off"
        self._wait = self._backoff
        self._window.clear()

    def _begin_probe(self) -> None:
        self._state = "probing"
        self._probes += 1
