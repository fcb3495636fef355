"""What the driver of one stream asks of costs and teaches them."""

from __future__ import annotations

import pytest

from maglio.draft.source import Draft, DraftSource
from maglio.economics.cost import NATIVE_COST, CostCurve
from maglio.economics.live_cost import PLAIN_EVERY, LiveCost
from support.clock import Clock, timed_engine
from support.decoder import Decoder
from support.decoding import GREEDY, PROMPT, ids, plain_run
from support.toy_sources import perfect

RUN = plain_run(GREEDY, 200)


class Confident(DraftSource):
    """Right, and says how likely it thinks that is."""

    def __init__(self, odds):
        self._odds = odds

    def propose(self, stream, limit):
        tokens = RUN.stream[len(stream) :][: min(limit, len(self._odds))]
        return Draft(tokens, "confident", self._odds[: len(tokens)])

    def observe(self, step):
        pass


def timed(source, cost, *, seconds=NATIVE_COST.cost) -> Decoder:
    clock = Clock()
    engine = timed_engine(clock, seconds, **RUN.model)
    return Decoder(engine, RUN.picker(), source, cost=cost, clock=clock)


def widths(decoder: Decoder) -> list[int]:
    return [len(fed) for fed in decoder.engine.forwards]


def test_a_stale_plain_step_is_taken_anew():
    cost = LiveCost(NATIVE_COST)
    for _ in range(2):
        cost.learn(1, 1.0)
    decoder = timed(perfect(RUN.stream, 2), cost)
    assert ids(decoder.generate(PROMPT, max_tokens=150)) == RUN.output[:150]
    assert widths(decoder)[: PLAIN_EVERY + 2] == [3] * PLAIN_EVERY + [1, 3]
    assert not cost.wants_plain


def test_a_lone_plain_step_is_not_trusted_and_a_second_follows():
    cost = LiveCost(NATIVE_COST)
    cost.learn(1, 77.0)
    decoder = timed(perfect(RUN.stream, 2), cost)
    list(decoder.generate(PROMPT, max_tokens=20))
    assert widths(decoder)[:3] == [1, 3, 3]
    assert cost.plain_s == pytest.approx(1.0)


def test_plain_steps_and_verifies_are_timed_and_prompts_are_not():
    heard = []

    class Listening(LiveCost):
        def learn(self, rows, seconds):
            heard.append((rows, seconds))

    decoder = timed(perfect(RUN.stream, 2), Listening(NATIVE_COST), seconds=lambda rows: 10 + rows)
    list(decoder.generate(PROMPT, max_tokens=9))
    list(decoder.generate([1, 2], max_tokens=1))
    assert heard == [(3, 13.0), (3, 13.0), (2, 12.0)]


def test_a_draft_with_odds_is_cut_where_it_stops_to_pay():
    dear = CostCurve([(1, 1.0), (2, 1.0), (3, 1.3), (4, 9.0)])
    for odds, width in (((0.9, 0.9, 0.9), 3), ((0.9, 0.5, 0.9), 2), ((0.0, 0.9), 1)):
        decoder = Decoder(
            RUN.engine(), RUN.picker(), Confident(odds), cost=LiveCost(dear), clock=None
        )
        assert ids(decoder.generate(PROMPT, max_tokens=40)) == RUN.output[:40]
        assert set(widths(decoder)[:-2]) == {width}


def test_a_draft_without_odds_is_verified_whole():
    dear = CostCurve([(1, 1.0), (2, 50.0)])
    decoder = Decoder(
        RUN.engine(), RUN.picker(), perfect(RUN.stream, 4), cost=LiveCost(dear), clock=None
    )
    list(decoder.generate(PROMPT, max_tokens=31))
    assert set(widths(decoder)) == {5}
