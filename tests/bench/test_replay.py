"""The arithmetic of a replay, by hand and against the decoder."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from maglio.bench.calibration import calibrate
from maglio.bench.policies import POLICIES, Bench, find_policies
from maglio.bench.record import record_run
from maglio.bench.replay import Tally, replay, replay_stream
from maglio.bench.stream import TokenStream, Turn
from maglio.draft.calibration import EVIDENCE
from maglio.draft.record import RecordOptions
from maglio.draft.registry import Setting, calibrated, record
from maglio.draft.source import Draft, DraftSource
from maglio.economics.cost import COST_CURVES, NATIVE_COST, CostCurve
from maglio.economics.live_cost import LiveCost
from maglio.engine.session import Session
from maglio.errors import InvalidArgumentError
from support.decoder import Decoder
from support.decoding import GREEDY, PROMPT, ids, plain_run
from support.toy_engine import ToyEngine

SETTING = Setting(n_vocab=30, cost=NATIVE_COST)


def turn(tokens, *, target, rows=False):
    array = np.array(tokens, dtype=np.int32)
    return Turn(array, target, np.stack([array + 1] * 8, axis=1) if rows else None)


def stream(*turns):
    return TokenStream("group", turns)


def run(lines, source, *, max_draft=4, cost=NATIVE_COST):
    return replay_stream(lines, source, cost, max_draft=max_draft)


def copier(**options):
    """Drafts from the stream itself, by the record's rules."""
    return record(RecordOptions(**options), recycling=False)(SETTING)


class Oracle(DraftSource):
    """Proposes what it is told for each length of the stream, and keeps a diary."""

    def __init__(self, drafts, *, topk=8, odds=()):
        self.topk = topk
        self._drafts = drafts
        self._odds = odds
        self.diary = []

    def propose(self, stream, limit):
        self.diary.append(("propose", len(stream), limit))
        tokens = self._drafts.get(len(stream))
        return None if tokens is None else Draft(tokens, "oracle", self._odds)

    def observe(self, step):
        tokens = list(step.tokens)
        if tokens:
            self.diary.append(("observe", tokens))
        if step.draft is not None:
            self.diary.append(("judged", list(step.draft.tokens), step.accepted))
        if step.top is not None:
            self.diary.append(("rows", list(step.fed), step.top[:, 0].tolist()))

    def judged(self):
        return [entry[1:] for entry in self.diary if entry[0] == "judged"]


def test_a_replay_counts_steps_rows_and_tokens():
    # Committed after two given tokens: 5 by the prefill, then 6 7 8 of a draft whose last token
    # is wrong, then 9 in a plain step.
    source = Oracle({3: [6, 7, 0]})
    tally = run(stream(turn([1, 2], target=False), turn([5, 6, 7, 8, 9], target=True)), source)
    assert (tally.steps, tally.tokens, tally.drafted, tally.accepted) == (2, 4, 3, 2)
    assert tally.widths == {4: 1, 1: 1}
    assert tally.acceptance_rate == pytest.approx(2 / 3)
    assert tally.mean_acceptance_length == 2.0
    assert tally.rows_per_accepted == 1.5
    assert tally.speedup(CostCurve([(1, 1.0), (4, 1.5)])) == pytest.approx(4 / 2.5)


def test_a_source_hears_what_the_decoder_would_tell_it():
    source = Oracle({3: [6, 7, 0]})
    given = turn([1, 2], target=False, rows=True)
    made = turn([5, 6, 7, 8, 9], target=True, rows=True)
    run(stream(given, made), source)
    assert source.diary == [
        ("rows", [1, 2], [2, 3]),
        ("observe", [1, 2]),
        ("observe", [5]),
        ("propose", 3, 4),
        ("observe", [6, 7, 8]),
        ("judged", [6, 7, 0], 2),  # a rejected token spends its draft
        ("rows", [5, 6, 7], [6, 7, 8]),
        ("propose", 6, 4),
        ("observe", [9]),
        ("rows", [8], [9]),
    ]


@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("topk", [8, 0])
def test_only_what_is_given_looks_like_a_prompt(rows, topk):
    class Watching(Oracle):
        def observe(self, step):
            if step.tokens:
                self.diary.append(("prompt" if not step.fed else "step", list(step.tokens)))

    source = Watching({}, topk=topk)
    run(
        stream(
            turn([1, 2], target=False, rows=rows),
            turn([5, 6], target=True, rows=rows),
            turn([7], target=False, rows=rows),
            turn([8], target=True, rows=rows),
        ),
        source,
    )
    heard = [entry for entry in source.diary if entry[0] != "propose"]
    assert heard == [
        ("prompt", [1, 2]),
        ("step", [5]),
        ("step", [6]),
        ("prompt", [7]),
        ("step", [8]),
    ]


def test_a_source_that_wants_no_rows_gets_none():
    source = Oracle({3: [6, 7, 0]}, topk=0)
    given = turn([1, 2], target=False, rows=True)
    run(stream(given, turn([5, 6, 7], target=True, rows=True)), source)
    assert not [entry for entry in source.diary if entry[0] == "rows"]


def test_a_draft_beyond_the_end_of_a_turn_pays_for_its_rows():
    source = Oracle({2: [6, 7, 8, 9, 9, 9]})
    tally = run(stream(turn([1], target=False), turn([5, 6, 7], target=True)), source)
    assert (tally.steps, tally.tokens, tally.drafted, tally.accepted) == (1, 2, 4, 2)
    assert source.judged() == [([6, 7], 2)]


def test_an_empty_draft_is_a_plain_step():
    source = Oracle({2: []})
    tally = run(stream(turn([1], target=False), turn([5, 6, 7], target=True)), source)
    assert (tally.steps, tally.drafted) == (2, 0)
    assert source.judged() == []


def test_a_draft_under_the_minimum_is_a_plain_step():
    # After 9 1 2 1 a draft of two tokens is at hand: 2 1.
    lines = stream(turn([9, 1, 2], target=False), turn([1, 2], target=True))
    for min_draft, drafted in ((3, 0), (2, 2)):
        tally = run(lines, copier(min_match=1, min_draft=min_draft), max_draft=2)
        assert (tally.steps, tally.drafted) == (1, drafted)


def test_a_draft_with_odds_is_cut_where_it_stops_to_pay():
    made = turn([5, 6, 7, 8, 9], target=True)
    free, dear = CostCurve([(1, 1.0), (9, 1.0)]), CostCurve([(1, 1.0), (2, 1.0), (3, 9.0)])
    for cost, judged in ((free, [6, 7, 8, 9]), (dear, [6])):
        source = Oracle({2: [6, 7, 8, 9]}, odds=(0.9, 0.9, 0.9, 0.9))
        tally = run(stream(turn([1], target=False), made), source, cost=cost)
        assert source.judged() == [(judged, len(judged))]
        assert tally.drafted == len(judged)


REPEATED = plain_run(GREEDY, max_tokens=120, n_vocab=30, order=2)
MADE = {
    "record": record(RecordOptions(min_match=1, mute_for=0), recycling=False),
    "calibrated": calibrated(),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE.keys())
def test_replay_verifies_what_the_decoder_verifies(make):
    left = iter(range(len(REPEATED.output) - 1, -1, -1))
    decoder = Decoder(
        REPEATED.engine(),
        REPEATED.picker(),
        make(SETTING),
        max_draft=6,
        cost=LiveCost(NATIVE_COST),
        clock=None,
    )
    # It is not max_tokens that ends the generation, so it does not cut a draft either.
    tokens = decoder.generate(PROMPT, max_tokens=400, should_stop=lambda _: next(left) == 0)
    assert ids(tokens) == REPEATED.output
    tally = run(
        stream(turn(PROMPT, target=False), turn(REPEATED.output, target=True)),
        make(SETTING),
        max_draft=6,
    )
    assert tally.widths == Counter(len(fed) for fed in decoder.engine.forwards)
    assert tally.accepted == decoder.stats.accepted > 0


def test_turns_after_the_first_are_generated_too():
    lines = stream(
        turn([1, 2, 3], target=False),
        turn([4, 5], target=True),
        turn([1, 2, 3], target=False),
        turn([4, 5, 4], target=True),
    )
    tally = run(lines, copier(), max_draft=16)
    assert (tally.tokens, tally.accepted) == (3, 1)


def recorded(category, prompt):
    session = Session(ToyEngine(n_vocab=30, order=2))
    return record_run(session, prompt, category=category, max_tokens=120).stream()


@pytest.mark.parametrize("name", POLICIES)
def test_replays_of_every_policy_repeat_themselves(name):
    streams = [recorded("a", [1, 2]), recorded("b", [3, 4]), recorded("a", [5, 6])]
    policy = POLICIES[name]
    bench = Bench(30, COST_CURVES["native"])
    first, second = (
        replay(streams, policy.open(bench), bench.cost, max_draft=policy.max_draft)
        for _ in range(2)
    )
    assert first == second
    assert list(first) == ["a", "b"]
    assert first["a"].tokens == 2 * 119


def test_material_is_announced_to_policies_that_predict_and_to_no_other():
    text = list(range(3, 23))
    made = Turn(np.array(text, dtype=np.int32), True, material=np.array(text, dtype=np.int32))
    lines = [stream(turn([1, 2], target=False), made)]
    bench = Bench(30, COST_CURVES["flat"])

    def replayed(name):
        policy = POLICIES[name]
        make = policy.open(bench)
        return replay(lines, make, bench.cost, max_draft=policy.max_draft, predict=policy.predicts)[
            "group"
        ]

    assert replayed("calibrated").accepted == 0
    told = replayed("calibrated-prediction")
    assert (told.tokens, told.steps, told.accepted) == (19, 2, 18)


def test_tallies_add_up():
    total = Tally()
    total.add(Tally(1, 2, 3, 1, Counter({4: 1})))
    total.add(Tally(2, 2, 0, 0, Counter({1: 2})))
    assert total == Tally(3, 4, 3, 1, Counter({1: 2, 4: 1}))
    assert Tally().speedup(COST_CURVES["native"]) == 1.0


def test_unknown_policies_are_refused_by_name():
    with pytest.raises(InvalidArgumentError, match="'guess'"):
        find_policies(["record", "guess"])


def test_calibration_counts_by_source_and_match_length():
    # After 1 2 the conversation has "3" at match 2, which is right, then "4", which is not.
    lines = stream(turn([1, 2, 3, 4, 9], target=False), turn([1, 2, 3, 5], target=True))
    cells = {(cell.source, cell.bucket): cell for cell in calibrate([lines], 20)["group"]}
    one = cells["conversation", "1"]
    assert (one.tried, one.accepted) == ([1, 1, 1, 0], [1, 1, 0, 0])
    two = cells["conversation", "2"]
    assert (two.tried, two.accepted) == ([1, 1, 0, 0], [1, 0, 0, 0])
    three = cells["conversation", "3"]
    assert (three.tried[0], three.accepted[0], three.probability(0)) == (1, 0, 0.0)
    assert cells["conversation", "41+"].probability(0) is None


def test_calibration_counts_first_tokens_by_the_evidence_for_them():
    # 7 was followed by 8, 8 and 1: by the latest in less than 4 of 10 cases. 8 came twice, then 5.
    lines = stream(turn([7, 8, 5, 7, 8, 5, 7, 1, 3, 7], target=False), turn([7, 8, 5], target=True))
    cells = {(cell.source, cell.bucket): cell for cell in calibrate([lines], 20)["group"]}
    one = cells["conversation", "1"]
    assert one.weighed_tried[EVIDENCE.index("seldom")] == 1
    assert one.weighed_probability(EVIDENCE.index("seldom")) == 0.0
    two = cells["conversation", "2"]
    assert two.weighed_probability(EVIDENCE.index("again")) == 1.0
    assert two.weighed_probability(EVIDENCE.index("always")) is None


def test_calibration_never_shows_recycling_the_row_it_is_to_guess():
    # Every row says truly what follows, but each token is new: only its own row could know.
    lines = stream(turn([1], target=False), turn([2, 3, 4, 5, 6], target=True, rows=True))
    recycling = calibrate([lines], 20)["group"][-1]
    assert recycling.tried[0] == 0
