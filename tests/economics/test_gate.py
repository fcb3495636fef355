"""The gate's decisions, one by one, on simulated steps."""

from __future__ import annotations

import itertools

import pytest

from maglio.economics.cost import CostCurve
from maglio.economics.gate import CostGate, GateEvents, GateOptions
from maglio.economics.live_cost import LiveCost
from maglio.errors import InvalidArgumentError

DENSE = CostCurve([(1, 1.0), (3, 1.65), (5, 1.42), (9, 2.84), (17, 4.5)])
EXPERTS = CostCurve([(1, 1.0), (5, 3.7), (17, 15.7)])
FLAT = CostCurve([(1, 1.0), (17, 1.0)])


def gate_of(table: CostCurve = DENSE, **options) -> CostGate:
    return CostGate(LiveCost(table), options=GateOptions(**options))


def verify(gate: CostGate, committed: int, *, drafted: int = 4, times: int = 1, **more) -> None:
    for _ in range(times):
        gate.record(rows=1 + drafted, committed=committed, **more)


def plain(gate: CostGate, times: int) -> None:
    for _ in range(times):
        gate.record(rows=1, committed=1)


class TimedRun:
    """A gate beside a driver with a clock, which teaches the cost before the gate judges."""

    def __init__(self, table: CostCurve = DENSE) -> None:
        self.cost = LiveCost(table)
        self.gate = CostGate(self.cost)

    def plain(self, times: int, seconds: float) -> None:
        for _ in range(times):
            self.cost.learn(1, seconds)
            plain(self.gate, 1)

    def verify(self, committed: int, *, seconds: float, drafted: int = 4, times: int = 1) -> None:
        for _ in range(times):
            self.cost.learn(1 + drafted, seconds)
            verify(self.gate, committed, drafted=drafted)


def trip(gate: CostGate) -> None:
    verify(gate, 1, times=2)
    assert gate.state == "off"


def test_a_clear_loss_trips_at_once_after_the_minimum_window():
    gate = gate_of()
    verify(gate, 1)
    assert gate.state == "on"
    verify(gate, 1)
    assert gate.state == "off"
    assert gate.budget(16) == 0
    assert gate.events == GateEvents(trips=1)


def test_one_verify_is_never_enough_however_long():
    gate = gate_of()
    verify(gate, 1, drafted=16)
    assert gate.state == "on"


def test_fewer_than_eight_drafted_tokens_are_not_enough():
    gate = gate_of()
    verify(gate, 1, drafted=2, times=3)
    assert gate.state == "on"
    verify(gate, 1, drafted=2)
    assert gate.state == "off"


def test_the_estimate_is_tokens_over_cost_not_tokens_per_step():
    # 2.5 tokens per step look like a gain, and 8 draft tokens cost 2.84 steps.
    gate = gate_of()
    verify(gate, 3, drafted=8)
    verify(gate, 2, drafted=8)
    assert gate.state == "off"
    gate = gate_of()
    verify(gate, 3, drafted=8, times=2)
    assert gate.estimated_speedup == pytest.approx(3 / 2.84)
    assert gate.state == "on"


def test_exactly_breaking_even_is_not_a_loss():
    gate = gate_of(CostCurve([(1, 1.0), (5, 2.0)]))
    verify(gate, 2, times=20)
    assert gate.state == "on"


def test_only_the_last_sixteen_verifies_count():
    gate = gate_of()
    verify(gate, 5, times=100)
    lost = 0
    while gate.state == "on":
        verify(gate, 1)
        lost += 1
    # 5 tokens each in the 16 - n good ones, 1 in the n bad: below 16 * 1.42 from 15 on.
    assert lost == 15


def test_plain_steps_of_a_source_without_drafts_count_for_nothing():
    gate = gate_of()
    verify(gate, 1)
    plain(gate, 1000)
    assert gate.state == "on"
    assert gate.events == GateEvents()
    verify(gate, 1)
    assert gate.state == "off"


def test_one_absurd_timing_sample_cannot_flip_a_winning_run():
    for at in range(12):
        run = TimedRun()
        run.plain(2, 0.01)
        for index in range(12):
            # 1.6 tokens for 1.42 steps: it wins, but not by much.
            slow = 100 if index == at else 1
            run.verify(2 if index % 5 < 3 else 1, seconds=0.0142 * slow)
        assert run.gate.state == "on", at


def test_one_absurd_plain_step_cannot_keep_a_losing_run_on():
    for at in range(3):
        run = TimedRun()
        for index in range(3):
            run.plain(1, 1.0 if index == at else 0.01)
        run.verify(1, seconds=0.0142, times=2)
        assert run.gate.state == "off", at


def test_drift_of_the_true_cost_trips_a_run_that_the_table_would_keep():
    run = TimedRun()
    run.plain(2, 0.01)
    run.verify(2, times=16, seconds=0.0142)
    assert run.gate.state == "on"
    taken = 0
    while run.gate.state == "on":
        run.verify(2, seconds=0.03)  # the machine has changed: 3 plain steps, not 1.42
        taken += 1
    assert taken < 6


def test_cheaper_verifies_than_the_table_says_keep_a_run_that_it_would_trip():
    run = TimedRun(EXPERTS)
    run.plain(2, 0.01)
    run.verify(4, times=16, seconds=0.012)
    run.verify(2, times=16, seconds=0.012)
    assert run.gate.state == "on"
    by_table = gate_of(EXPERTS)
    verify(by_table, 4, times=16)
    verify(by_table, 2, times=16)
    assert by_table.state == "off"


def test_without_a_clock_the_table_alone_decides():
    cost = LiveCost(DENSE)
    gate = CostGate(cost)
    plain(gate, 10)
    verify(gate, 2, times=16)
    assert cost.multiplier == 1.0
    assert gate.estimated_speedup == pytest.approx(2 / 1.42)
    assert gate.budget(16) > 0
    assert not cost.wants_plain  # nothing asks for a plain step, to time it


def test_a_stale_plain_step_is_the_drivers_to_take_anew():
    run = TimedRun()
    run.plain(2, 0.01)
    run.verify(5, times=32, seconds=0.0142)
    assert run.cost.wants_plain
    assert run.gate.budget(16) == 16
    assert run.gate.state == "on"
    run.plain(1, 0.01)
    assert not run.cost.wants_plain
    assert run.gate.budget(16) == 16
    assert run.gate.events.disabled_steps == 0


@pytest.mark.parametrize("beside", [1, 3, 12])
def test_a_verify_beside_other_rows_costs_what_it_adds_to_their_forward(beside):
    gate = gate_of()
    verify(gate, 2, times=3, beside=beside)
    price = DENSE.cost(beside + 5) / DENSE.cost(beside + 1)
    assert gate.estimated_speedup == pytest.approx(2 / price)


def test_company_that_comes_and_goes_is_priced_step_by_step():
    gate = gate_of(adapts_budget=False)
    verify(gate, 3)
    verify(gate, 2, beside=4)
    verify(gate, 1, drafted=2, beside=4)
    spent = 1.42 + DENSE.cost(9) / DENSE.cost(5) + DENSE.cost(7) / DENSE.cost(5)
    assert gate.estimated_speedup == pytest.approx(6 / spent)


def test_a_draft_that_loses_alone_can_pay_beside_others():
    # Two tokens for 3.7 steps; beside twelve rows five more cost a third.
    alone, beside = gate_of(EXPERTS), gate_of(EXPERTS)
    verify(alone, 2, times=16)
    verify(beside, 2, times=16, beside=12)
    assert (alone.state, beside.state) == ("off", "on")


def test_rows_beside_a_plain_step_change_nothing():
    gate = gate_of()
    verify(gate, 1, times=2)
    for _ in range(128):
        gate.record(rows=1, committed=1, beside=7)
    assert gate.state == "probing"
    assert gate.events == GateEvents(trips=1, probes=1, disabled_steps=128)


def test_backoff_doubles_from_128_to_1024_and_stays():
    gate = gate_of()
    trip(gate)
    for wait in (128, 256, 512, 1024, 1024, 1024):
        assert gate.wait == wait
        plain(gate, wait - 1)
        assert gate.state == "off"
        plain(gate, 1)
        assert gate.state == "probing"
        verify(gate, 1, times=4)
        assert gate.state == "off"


def test_a_passed_probe_resets_the_backoff():
    gate = gate_of()
    trip(gate)
    plain(gate, 128)
    verify(gate, 1, times=4)
    assert gate.wait == 256
    plain(gate, 256)
    verify(gate, 5, times=4)
    assert gate.state == "on"
    while gate.state == "on":
        verify(gate, 1)
    assert gate.wait == 128
    assert gate.events == GateEvents(trips=2, probes=2, disabled_steps=384)


def test_a_probe_is_four_verifies_long_and_plain_steps_do_not_shorten_it():
    gate = gate_of()
    trip(gate)
    plain(gate, 128)
    for _ in range(3):
        verify(gate, 1)
        plain(gate, 5)
        assert gate.state == "probing"
        assert gate.budget(16) > 0
    verify(gate, 1)
    assert gate.state == "off"


@pytest.mark.parametrize(("committed", "passes"), [((5, 5, 5, 6), False), ((5, 6, 5, 6), True)])
def test_drafting_returns_only_at_1_1(committed, passes):
    gate = gate_of(CostCurve([(1, 1.0), (9, 5.0)]))
    verify(gate, 1, drafted=8, times=2)
    plain(gate, 128)
    for tokens in committed:  # 1.05 and 1.1 times as fast
        verify(gate, tokens, drafted=8)
    assert (gate.state == "on") is passes


def test_a_marginal_regime_does_not_flap():
    # Between 1.0 and 1.1 whoever is on stays on, and whoever is off stays off.
    table = CostCurve([(1, 1.0), (9, 2.9)])
    on, off = gate_of(table), gate_of(table)
    verify(off, 1, drafted=8, times=2)
    assert off.state == "off"
    for _ in range(10):
        verify(on, 3, drafted=8, times=100)
        plain(off, off.wait)
        verify(off, 3, drafted=8, times=4)
        assert (on.state, off.state) == ("on", "off")
    assert on.events.trips == 0
    assert off.events.trips == 1


def test_the_probe_is_judged_by_its_own_verifies():
    gate = gate_of()
    verify(gate, 5, times=16)
    verify(gate, 1, times=15)
    assert gate.state == "off"
    plain(gate, 128)
    verify(gate, 5, times=4)
    assert gate.state == "on"
    assert gate.estimated_speedup == pytest.approx(5 / 1.42)


def test_the_budget_follows_acceptance():
    gate = gate_of()
    assert gate.budget(16) == 10  # nothing known
    verify(gate, 1, times=1)
    assert gate.budget(16) == 2
    gate = gate_of()
    for committed, expected in ((5, 16), (2, 12), (1, 9), (1, 7)):
        # 4/4, 5/8, 5/12, 5/16 accepted: 2 + ceil(acceptance * 16), at most 16.
        verify(gate, committed)
        assert gate.budget(16) == expected


def test_the_budget_of_a_probe_remembers_what_tripped():
    gate = gate_of()
    trip(gate)
    plain(gate, 128)
    assert gate.budget(16) == 2


def test_a_budget_that_does_not_adapt_is_the_whole_one():
    gate = gate_of(adapts_budget=False)
    verify(gate, 1)
    assert gate.budget(16) == 16
    verify(gate, 1)
    assert gate.budget(16) == 0


def test_patience_waits_for_a_loss_in_plain_steps():
    gate = gate_of(patience=4.0, window=64)
    verify(gate, 1, times=9)  # 0.42 steps lost by each
    assert gate.state == "on"
    verify(gate, 1)
    assert gate.state == "off"


def test_a_mixture_of_experts_is_carried_by_the_gate():
    # Four draft tokens cost 3.7 plain steps: even three of four accepted gain next to nothing.
    gate = gate_of(EXPERTS)
    acceptances = itertools.cycle((2, 1, 3, 1))
    spent, tokens = 0.0, 0
    while tokens < 2048:
        drafted = min(4, gate.budget(16))
        committed = 1 + min(drafted, next(acceptances)) if drafted else 1
        gate.record(rows=1 + drafted, committed=committed)
        tokens += committed
        spent += EXPERTS.cost(1 + drafted)
    assert tokens / spent > 0.98
    assert gate.events.trips == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 0}, "window is 0"),
        ({"window": 1}, "window is 1 .* at least 2"),
        ({"window": 7, "min_verifies": 8}, "window is 7 .* at least 8"),
        ({"probe_steps": 0}, "probe_steps is 0, .* from 1"),
        ({"reprobe_after": 0}, "reprobe_after is 0, .* from 1"),
        ({"reprobe_max": 127}, "reprobe_max is 127, .* from 128"),
        ({"min_speedup": float("nan")}, "min_speedup"),
        ({"probe_margin": -0.1}, "probe_margin"),
        ({"patience": -1}, "patience"),
        ({"min_drafted": 1.5}, "min_drafted"),
        ({"window": True}, "window is True"),
    ],
)
def test_a_degenerate_option_is_refused_by_name(options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        GateOptions(**options)
