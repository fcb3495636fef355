"""The gate decides when drafts are verified; what is committed does not know of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio.economics.cost import NATIVE_COST, CostCurve
from maglio.economics.gate import CostGate, GateOptions
from maglio.economics.live_cost import LiveCost
from support.clock import Clock, timed_engine
from support.decoder import Decoder
from support.decoding import GREEDY, PROMPT, SAMPLED, ids, plain_run
from support.toy_sources import ScriptedSource, perfect, spoil

RUNS = {"greedy": plain_run(GREEDY, 200), "sampled": plain_run(SAMPLED, 200)}
EAGER = GateOptions(reprobe_after=4, reprobe_max=16)


def gated(run, source, *, seconds=NATIVE_COST.cost, options=EAGER, table=NATIVE_COST):
    clock, cost = Clock(), LiveCost(table)
    gate = CostGate(cost, options=options)
    engine = timed_engine(clock, seconds, **run.model)
    return Decoder(engine, run.picker(), source, gate=gate, cost=cost, clock=clock), gate


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_no_behaviour_of_the_gate_can_change_the_stream(data):
    run = data.draw(st.sampled_from(list(RUNS.values())))
    quality = data.draw(st.lists(st.integers(0, 8), min_size=1, max_size=12))
    pace = data.draw(st.lists(st.floats(0.0, 50.0), min_size=1, max_size=12))
    options = GateOptions(
        reprobe_after=data.draw(st.integers(1, 12)),
        reprobe_max=24,
        probe_steps=data.draw(st.integers(1, 5)),
        window=data.draw(st.integers(2, 16)),
        adapts_budget=data.draw(st.booleans()),
    )
    calls = iter(range(10**6))

    def draft(truth: list[int], call: int) -> list[int]:
        return spoil(truth[:8], quality[call % len(quality)], 60)

    decoder, _ = gated(
        run,
        ScriptedSource(run.stream, draft),
        seconds=lambda rows: rows * pace[next(calls) % len(pace)],
        options=options,
    )
    assert ids(decoder.generate(PROMPT, max_tokens=200)) == run.output
    run.check(decoder, generated=200)


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS.keys())
def test_streams_are_equal_while_the_gate_trips_backs_off_and_probes(run):
    # Wrong for the first 120 tokens, right from then on.
    def draft(truth: list[int], call: int) -> list[int]:
        return truth[:6] if len(truth) < 80 else spoil(truth, 0, 60)[:6]

    decoder, gate = gated(run, ScriptedSource(run.stream, draft))
    assert ids(decoder.generate(PROMPT, max_tokens=200)) == run.output
    run.check(decoder, generated=200)
    assert gate.state == "on"
    assert gate.events.trips == 1
    assert gate.events.probes > 2
    stats = decoder.stats
    assert stats.gate_trips == 1
    assert stats.gate_probes == gate.events.probes
    assert stats.gate_disabled_steps == gate.events.disabled_steps > 12


def test_a_source_that_is_always_wrong_costs_at_most_two_percent():
    run = plain_run(GREEDY, 1024, n_ctx=2048)
    source = ScriptedSource(run.stream, lambda truth, _: spoil(truth, 0, 60)[:16])
    decoder, _ = gated(run, source, options=GateOptions())
    assert ids(decoder.generate(PROMPT, max_tokens=1024)) == run.output
    spent = sum(NATIVE_COST.cost(len(fed)) for fed in decoder.engine.forwards)
    assert spent < 1.02 * 1023


def test_a_source_that_is_always_right_is_hardly_slowed_down():
    run = plain_run(GREEDY, 600, n_ctx=2048)
    decoder, gate = gated(run, perfect(run.stream, 16), options=GateOptions())
    assert ids(decoder.generate(PROMPT, max_tokens=600)) == run.output
    plain = [len(fed) for fed in decoder.engine.forwards].count(1)
    assert plain <= 2  # for its time
    assert gate.events.trips == 0


def test_true_costs_above_the_table_are_learnt_by_the_clock():
    run = RUNS["greedy"]

    def half_right(truth: list[int], call: int) -> list[int]:
        return [] if call < 2 else spoil(truth, 2, 60)[:5]

    slow = CostCurve([(1, 1.0), (6, 6.0)])
    decoder, gate = gated(run, ScriptedSource(run.stream, half_right), seconds=slow.cost)
    list(decoder.generate(PROMPT, max_tokens=200))
    assert gate.events.trips == 1
    trusting, gate = gated(run, ScriptedSource(run.stream, half_right), seconds=lambda _: 0.0)
    list(trusting.generate(PROMPT, max_tokens=200))
    assert gate.events.trips == 0


def test_without_a_clock_the_table_alone_applies():
    run = RUNS["greedy"]
    cost = LiveCost(NATIVE_COST)
    decoder = Decoder(
        run.engine(),
        run.picker(),
        perfect(run.stream, 5),
        gate=CostGate(cost),
        cost=cost,
        clock=None,
    )
    assert ids(decoder.generate(PROMPT, max_tokens=200)) == run.output
    assert cost.plain_s is None
    assert cost.multiplier == 1.0


def test_a_verify_cut_short_by_the_end_is_not_held_against_the_source():
    run = RUNS["greedy"]
    decoder, gate = gated(run, perfect(run.stream, 16))
    for _ in range(8):
        list(decoder.generate(() if decoder.tokens else PROMPT, max_tokens=3))
    assert gate.events.trips == 0
    assert gate.estimated_speedup is None


def test_statistics_are_those_of_the_generation_not_of_the_gate():
    run = RUNS["greedy"]
    source = ScriptedSource(run.stream, lambda truth, _: spoil(truth, 0, 60)[:6])
    decoder, gate = gated(run, source, options=GateOptions())
    list(decoder.generate(PROMPT, max_tokens=50))
    assert decoder.stats.gate_trips == 1
    list(decoder.generate((), max_tokens=20))
    assert decoder.stats.gate_trips == 0
    assert decoder.stats.gate_disabled_steps > 0
    assert gate.events.trips == 1


def test_a_budget_of_one_token_fits_too():
    run = RUNS["greedy"]
    gate = CostGate(LiveCost(NATIVE_COST))
    decoder = Decoder(run.engine(), run.picker(), perfect(run.stream), max_draft=1, gate=gate)
    assert ids(decoder.generate(PROMPT, max_tokens=20)) == run.output[:20]
    assert {len(fed) for fed in decoder.engine.forwards} <= {1, 2}
