"""Many streams in one forward: each is what it is alone, whatever happens to the others."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio.decode import Drafter, Picker, SamplingParams, Scheduler
from maglio.decode import Sequence as TokenSequence
from maglio.draft.source import Draft
from maglio.economics.cost import FLAT_COST, NATIVE_COST, CostCurve
from maglio.economics.gate import CostGate, GateOptions
from maglio.economics.live_cost import LiveCost
from maglio.engine.base import Segment
from maglio.errors import InvalidArgumentError, InvalidLogitsError, OutOfMemoryError
from support.decoding import GREEDY, SAMPLED, ids
from support.toy_engine import ToyEngine, decode_plainly
from support.toy_sources import ScriptedSource, adversaries, perfect, spoil

N_VOCAB = 60
KINDS = ("none", *adversaries([], N_VOCAB))


@functools.cache
def alone(prompt: tuple[int, ...], params: SamplingParams, max_tokens: int) -> list[int]:
    return decode_plainly(ToyEngine(), Picker(params, N_VOCAB), prompt, max_tokens)


class Stream:
    """One sequence, and what it gives alone."""

    def __init__(
        self,
        engine: ToyEngine,
        prompt: Sequence[int],
        params: SamplingParams = GREEDY,
        *,
        max_tokens: int = 20,
        kind: str = "none",
        source: ScriptedSource | None = None,
        gate: CostGate | None = None,
    ) -> None:
        self.expected = alone(tuple(prompt), params, max_tokens)
        if kind != "none":
            source = adversaries([*prompt, *self.expected], N_VOCAB)[kind]
        drafter = None if source is None else Drafter(source, N_VOCAB, gate=gate)
        picker = Picker(params, N_VOCAB)
        self.sequence = TokenSequence(engine.new_cache(), picker, drafter, n_ctx=engine.n_ctx)
        self.sequence.begin(prompt, max_tokens=max_tokens)
        self.got: list[int] = []


def step(scheduler: Scheduler, streams: list[Stream]) -> dict[int, Exception]:
    """One step; the errors by stream."""
    errors = {}
    for sequence, _, error in scheduler.step():
        [number] = [n for n, stream in enumerate(streams) if stream.sequence is sequence]
        streams[number].got += ids(sequence.take())
        if error is not None:
            errors[number] = error
        if error is not None or sequence.finish_reason is not None:
            sequence.evict()  # as whoever has no more use for it does
    return errors


def finish(scheduler: Scheduler, streams: list[Stream]) -> dict[int, Exception]:
    errors: dict[int, Exception] = {}
    while len(scheduler):
        errors |= step(scheduler, streams)
    return errors


def scheduler_of(engine: ToyEngine, **options: int) -> Scheduler:
    return Scheduler(engine, LiveCost(NATIVE_COST), **options)


PROMPTS = st.lists(st.integers(0, N_VOCAB - 1), min_size=1, max_size=40)
STREAMS = st.tuples(
    PROMPTS,
    st.sampled_from([GREEDY, SAMPLED]),
    st.integers(0, 30),
    st.sampled_from(KINDS),
    st.integers(0, 12),  # the step in which it arrives
    st.one_of(st.none(), st.integers(1, 20)),  # and that in which it is cancelled
)


@settings(max_examples=150, deadline=None)
@given(
    streams=st.lists(STREAMS, min_size=1, max_size=8),
    prefill_rows=st.integers(1, 20),
    capacity=st.sampled_from([1 << 30, 200, 120]),
)
def test_every_stream_is_what_it_is_alone(streams, prefill_rows, capacity):
    engine = ToyEngine(capacity=capacity)
    engine.max_rows = 40
    scheduler = scheduler_of(engine, prefill_rows=prefill_rows)
    made: list[Stream | None] = [None] * len(streams)
    cancelled: set[int] = set()
    errors: dict[int, Exception] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of sources that raise
        for now in range(400):
            for number, (prompt, params, max_tokens, kind, arrives, _) in enumerate(streams):
                if arrives == now:
                    made[number] = Stream(engine, prompt, params, max_tokens=max_tokens, kind=kind)
                    scheduler.add(made[number].sequence)
            for number, (*_, cancel) in enumerate(streams):
                if cancel == now and made[number] is not None:
                    scheduler.cancel(made[number].sequence)
                    cancelled.add(number)
                    made[number].sequence.evict()
            running = [stream for stream in made if stream is not None]
            found = step(scheduler, running)
            errors |= {made.index(running[n]): error for n, error in found.items()}
            if now > 20 and not len(scheduler):
                break
    assert not len(scheduler)
    for number, stream in enumerate(made):
        if number in cancelled or number in errors:
            assert stream.got == stream.expected[: len(stream.got)]
            continue
        assert stream.got == stream.expected
        assert stream.sequence.position == len(stream.expected)
    assert all(isinstance(error, OutOfMemoryError) for error in errors.values())


def test_streams_share_forwards():
    engine = ToyEngine()
    scheduler = scheduler_of(engine)
    streams = [Stream(engine, [n, 1, 2]) for n in range(8)]
    for stream in streams:
        scheduler.add(stream.sequence)
    assert finish(scheduler, streams) == {}
    assert [stream.got for stream in streams] == [stream.expected for stream in streams]
    assert len(engine.calls) == 20
    assert all(len(batch) == 8 for batch in engine.calls)


def test_a_long_prompt_does_not_hold_up_the_others():
    engine = ToyEngine()
    scheduler = scheduler_of(engine, prefill_rows=16)
    talker, reader = Stream(engine, [1, 2]), Stream(engine, [5] * 200, max_tokens=3)
    scheduler.add(talker.sequence)
    step(scheduler, [talker])
    scheduler.add(reader.sequence)
    for tokens in range(2, 12):
        step(scheduler, [talker, reader])
        assert len(talker.got) == tokens
        assert sum(len(segment.tokens) for segment in engine.calls[-1]) == 17
    finish(scheduler, [talker, reader])
    assert reader.got == reader.expected


def test_prompts_alone_fill_whole_forwards():
    engine = ToyEngine()
    scheduler = scheduler_of(engine, prefill_rows=16)
    stream = Stream(engine, [5] * 200, max_tokens=3)
    scheduler.add(stream.sequence)
    finish(scheduler, [stream])
    assert [len(batch[0].tokens) for batch in engine.calls] == [128, 72, 1, 1]


def test_prompts_are_read_oldest_first():
    engine = ToyEngine()
    scheduler = scheduler_of(engine)
    streams = [Stream(engine, [n] * 100, max_tokens=1) for n in range(3)]
    for stream in streams:
        scheduler.add(stream.sequence)
    step(scheduler, streams)
    assert [len(segment.tokens) for segment in engine.calls[0]] == [100, 28]
    step(scheduler, streams)
    assert [stream.got for stream in streams[:2]] == [stream.expected for stream in streams[:2]]
    assert finish(scheduler, streams) == {}


class Hopeful(ScriptedSource):
    """Right drafts with given odds."""

    def __init__(self, stream: Sequence[int], odds: float) -> None:
        super().__init__(stream, lambda truth, _: truth[:6])
        self.odds = odds

    def propose(self, stream, limit):
        draft = super().propose(stream, limit)
        return Draft(draft.tokens, "hopeful", [self.odds] * len(draft.tokens))


def test_rows_go_to_the_drafts_that_promise_most():
    engine = ToyEngine()
    scheduler = Scheduler(engine, LiveCost(NATIVE_COST))
    streams = []
    for first, odds in ((1, 0.95), (2, 0.6), (3, 0.05)):
        prompt = [first, 1, 2]
        source = Hopeful([*prompt, *alone(tuple(prompt), GREEDY, 20)], odds)
        streams.append(Stream(engine, prompt, source=source))
        scheduler.add(streams[-1].sequence)
    step(scheduler, streams)
    step(scheduler, streams)
    widths = [len(segment.tokens) for segment in engine.calls[1]]
    assert widths[0] > widths[1] >= widths[2] == 1
    assert finish(scheduler, streams) == {}
    assert [stream.got for stream in streams] == [stream.expected for stream in streams]


def test_drafts_never_push_a_stream_out_of_a_forward():
    engine = ToyEngine()
    engine.max_rows = 8
    scheduler = Scheduler(engine, LiveCost(FLAT_COST))
    streams = []
    for first in range(6):
        prompt = (first, 7)
        streams.append(
            Stream(engine, prompt, source=perfect([*prompt, *alone(prompt, GREEDY, 20)], 6))
        )
        scheduler.add(streams[-1].sequence)
    assert finish(scheduler, streams) == {}
    assert [stream.got for stream in streams] == [stream.expected for stream in streams]


def test_there_are_never_more_streams_than_rows():
    engine = ToyEngine()
    engine.max_rows = 2
    scheduler = scheduler_of(engine)
    streams = [Stream(engine, [n, 3]) for n in range(3)]
    for stream in streams[:2]:
        scheduler.add(stream.sequence)
    with pytest.raises(InvalidArgumentError, match="forward of 2 rows"):
        scheduler.add(streams[2].sequence)


def test_a_sequence_is_scheduled_once_and_with_a_generation():
    engine = ToyEngine()
    scheduler, stream = scheduler_of(engine), Stream(engine, [3])
    scheduler.add(stream.sequence)
    with pytest.raises(InvalidArgumentError, match="scheduled already"):
        scheduler.add(stream.sequence)
    sequence = TokenSequence(engine.new_cache(), Picker(GREEDY, N_VOCAB), n_ctx=engine.n_ctx)
    with pytest.raises(InvalidArgumentError, match="nothing was begun"):
        scheduler.add(sequence)


def test_a_stream_with_broken_logits_fails_alone():
    engine = ToyEngine()
    healthy = engine.row

    def row(prefix):
        logits = healthy(prefix).copy()
        if prefix[0] == 13 and len(prefix) == 8:
            logits[3] = float("nan")
        return logits

    engine.row = row
    scheduler = scheduler_of(engine)
    streams = [Stream(engine, [first, 1, 2]) for first in (12, 13, 14)]
    for stream in streams:
        scheduler.add(stream.sequence)
    errors = finish(scheduler, streams)
    assert list(errors) == [1]
    assert isinstance(errors[1], InvalidLogitsError)
    assert streams[1].got == streams[1].expected[:5]
    for stream in (streams[0], streams[2]):
        assert stream.got == stream.expected


def test_the_youngest_gives_way_when_memory_ends_and_comes_back():
    engine = ToyEngine(capacity=100)
    scheduler = scheduler_of(engine)
    streams = [Stream(engine, [n] * 20, max_tokens=25) for n in range(3)]
    for stream in streams:
        scheduler.add(stream.sequence)
    errors = finish(scheduler, streams)
    assert errors == {}
    for stream in streams:
        assert stream.got == stream.expected
    last = {id(segment.cache): call for call, b in enumerate(engine.calls) for segment in b}
    ends = [last[id(stream.sequence.cache)] for stream in streams]
    assert ends[2] > max(ends[:2])
    assert streams[2].sequence.stats.prompt_tokens > 20  # it was computed again


def test_spare_memory_is_given_back_before_a_stream_waits():
    engine = ToyEngine(capacity=150)
    spare = [engine.new_cache() for _ in range(3)]
    engine.forward([Segment(cache, [1] * 40, 0) for cache in spare])
    engine.calls.clear()  # which hold them too

    def reclaim() -> bool:
        return bool(spare) and spare.pop() is not None

    scheduler = Scheduler(engine, LiveCost(NATIVE_COST), reclaim=reclaim)
    streams = [Stream(engine, [n] * 20, max_tokens=25) for n in range(3)]
    for stream in streams:
        scheduler.add(stream.sequence)
    assert finish(scheduler, streams) == {}
    assert spare == []
    for stream in streams:
        assert stream.got == stream.expected
        assert stream.sequence.stats.prompt_tokens == 20  # nothing was computed again


def test_a_stream_that_never_fits_fails_and_the_others_finish():
    engine = ToyEngine(capacity=60)
    scheduler = scheduler_of(engine)
    streams = [Stream(engine, [1] * 10), Stream(engine, [2] * 59), Stream(engine, [3] * 10)]
    for stream in streams:
        scheduler.add(stream.sequence)
    errors = finish(scheduler, streams)
    assert list(errors) == [1]
    assert isinstance(errors[1], OutOfMemoryError)
    assert streams[0].got == streams[0].expected
    assert streams[2].got == streams[2].expected


def test_an_interrupt_in_a_forward_loses_nothing():
    def interrupt(call: int) -> None:
        if call == 5:
            raise KeyboardInterrupt

    engine = ToyEngine(after_call=interrupt)
    scheduler = scheduler_of(engine)
    streams = [Stream(engine, [n, 1, 2], SAMPLED, kind="alternating") for n in range(4)]
    for stream in streams:
        scheduler.add(stream.sequence)
    with pytest.raises(KeyboardInterrupt):
        finish(scheduler, streams)
    finish(scheduler, streams)
    assert [stream.got for stream in streams] == [stream.expected for stream in streams]


def test_tokens_that_nobody_took_are_picked_again():
    engine = ToyEngine()
    scheduler = scheduler_of(engine)
    stream = Stream(engine, [1, 2, 3], SAMPLED, kind="perfect")
    scheduler.add(stream.sequence)
    scheduler.step()
    scheduler.step()
    assert finish(scheduler, [stream]) == {}
    assert stream.got == stream.expected


def test_costs_are_learnt_from_streams_that_run_alone():
    cost = LiveCost(NATIVE_COST)
    now = iter(range(10**6))
    engine = ToyEngine()
    scheduler = Scheduler(engine, cost, clock=lambda: float(next(now)))
    streams = [Stream(engine, [n, 1, 2]) for n in range(2)]
    for stream in streams:
        scheduler.add(stream.sequence)
    finish(scheduler, streams)
    assert cost.plain_s is None
    last = Stream(engine, [9])
    scheduler.add(last.sequence)
    finish(scheduler, [last])
    assert cost.plain_s == 1.0


def test_a_gate_judges_a_stream_by_what_its_rows_cost_beside_the_others():
    # Two of three drafts are right: a gain where rows cost little, a loss where they are dear.
    dear_beside = CostCurve([(1, 1.0), (8, 1.1), (9, 8.0), (64, 60.0)])
    trips = []
    for others in (0, 5):
        cost = LiveCost(dear_beside)
        gate = CostGate(cost, options=GateOptions(adapts_budget=False))
        engine = ToyEngine()
        scheduler = Scheduler(engine, cost, clock=lambda: 0.0)
        prompt = (1, 2, 3)
        truth = [*prompt, *alone(prompt, GREEDY, 60)]
        source = ScriptedSource(truth, lambda rest, _: spoil(rest[:4], 2, N_VOCAB))
        stream = Stream(engine, prompt, source=source, gate=gate, max_tokens=60)
        streams = [stream, *(Stream(engine, [n], max_tokens=60) for n in range(others))]
        for each in streams:
            scheduler.add(each.sequence)
        finish(scheduler, streams)
        assert stream.got == stream.expected
        trips.append(gate.events.trips)
    assert trips[0] == 0
    assert trips[1] > 0


def test_many_streams_on_little_memory_end_oldest_first_and_none_starves():
    engine = ToyEngine(capacity=130)
    scheduler = scheduler_of(engine)
    streams = [Stream(engine, [n] * 20, max_tokens=25) for n in range(20)]
    for stream in streams:
        scheduler.add(stream.sequence)
    ended = []
    while len(scheduler):
        assert step(scheduler, streams) == {}
        ended += [s for s in streams if s.sequence.finish_reason is not None and s not in ended]
    assert [stream.got for stream in streams] == [stream.expected for stream in streams]
    assert ended == streams
    computed = sum(len(segment.tokens) for batch in engine.calls for segment in batch)
    assert computed < 3 * 20 * (20 + 25)  # those that wait are not computed over and over


def test_an_interrupt_while_room_is_made_loses_nothing(monkeypatch):
    for at in range(1, 6):
        engine = ToyEngine(capacity=100)
        scheduler = scheduler_of(engine)
        streams = [Stream(engine, [n] * 20, SAMPLED, max_tokens=25) for n in range(3)]
        for stream in streams:
            scheduler.add(stream.sequence)
        evict, left = TokenSequence.evict, iter(range(at, 0, -1))

        def interrupted(sequence, *, release=False, evict=evict, left=left):
            if next(left, None) == 1:
                raise KeyboardInterrupt
            evict(sequence, release=release)

        monkeypatch.setattr(TokenSequence, "evict", interrupted)
        with pytest.raises(KeyboardInterrupt):
            finish(scheduler, streams)
        monkeypatch.undo()
        assert finish(scheduler, streams) == {}
        assert [stream.got for stream in streams] == [stream.expected for stream in streams]
