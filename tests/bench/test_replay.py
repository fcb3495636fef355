"""The arithmetic of a replay, by hand and against the decoder."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from maglio.bench.calibration import calibrate
from maglio.bench.policies import POLICIES, Bench, find_policies
from maglio.bench.record import record_run
from maglio.bench.replay import Limits, Tally, replay, replay_stream
from maglio.bench.stream import TokenStream, Turn
from maglio.decode import DecodeOptions
from maglio.draft.calibration import EVIDENCE
from maglio.draft.suffix import ConversationSource
from maglio.economics.cost import COST_CURVES, CostCurve
from maglio.errors import InvalidArgumentError
from support.decoding import GREEDY, PROMPT, ids, plain_run
from support.toy_session import ToySession

LIMITS = Limits(4, 1)


def turn(tokens, *, target, rows=False):
    array = np.array(tokens, dtype=np.int32)
    return Turn(array, target, np.stack([array + 1] * 8, axis=1) if rows else None)


def stream(*turns):
    return TokenStream("group", turns)


class Oracle:
    """Proposes what it is told for each length of the stream, and keeps a diary."""

    topk = 8

    def __init__(self, drafts):
        self._drafts = drafts
        self.diary = []

    def suggest(self, context, limit):
        self.diary.append(("suggest", len(context), limit))
        return self._drafts.get(len(context), [])

    def observe(self, committed):
        self.diary.append(("observe", list(committed)))

    def observe_topk(self, tokens, candidates):
        self.diary.append(("rows", list(tokens), candidates[:, 0].tolist()))

    def truncate_pending(self, n):
        self.diary.append(("truncate", n))


def test_a_replay_counts_steps_rows_and_tokens():
    # Committed after two given tokens: 5 by the prefill, then 6 7 8 of a draft whose last token
    # is wrong, then 9 in a plain step.
    source = Oracle({3: [6, 7, 0]})
    lines = stream(turn([1, 2], target=False), turn([5, 6, 7, 8, 9], target=True))
    tally = replay_stream(lines, source, LIMITS)
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
    replay_stream(stream(given, made), source, LIMITS)
    assert source.diary == [
        ("rows", [1, 2], [2, 3]),
        ("observe", [1, 2]),
        ("observe", [5]),
        ("suggest", 3, 4),
        ("rows", [5, 6, 7], [6, 7, 8]),
        ("observe", [6, 7, 8]),
        ("suggest", 6, 4),
        ("rows", [8], [9]),
        ("observe", [9]),
        ("rows", [9], [10]),
    ]


def test_a_draft_beyond_the_end_of_a_turn_pays_for_its_rows():
    source = Oracle({2: [6, 7, 8, 9, 9, 9]})
    lines = stream(turn([1], target=False), turn([5, 6, 7], target=True))
    tally = replay_stream(lines, source, LIMITS)
    assert (tally.steps, tally.tokens, tally.drafted, tally.accepted) == (1, 2, 4, 2)
    assert ("truncate", 2) in source.diary


def test_a_draft_under_the_minimum_is_a_plain_step():
    source = Oracle({2: [6]})
    made = turn([5, 6, 7], target=True)
    tally = replay_stream(stream(turn([1], target=False), made), source, Limits(4, 2))
    assert (tally.steps, tally.drafted) == (2, 0)
    assert ("truncate", 0) in source.diary


def test_replay_verifies_what_the_decoder_verifies():
    run = plain_run(GREEDY, max_tokens=120, n_vocab=30, order=2)
    left = iter(range(len(run.output) - 1, -1, -1))
    # It is not max_tokens that ends the generation, so it does not cut a draft either.
    decoder = run.decoder(
        ConversationSource(min_match=1), options=DecodeOptions(max_draft=6, min_draft=2)
    )
    tokens = decoder.generate(PROMPT, max_tokens=400, should_stop=lambda _: next(left) == 0)
    assert ids(tokens) == run.output
    tally = replay_stream(
        stream(turn(PROMPT, target=False), turn(run.output, target=True)),
        ConversationSource(min_match=1),
        Limits(6, 2),
    )
    assert tally.widths == Counter(len(fed) for fed in decoder._session.forwards)
    assert tally.accepted == decoder.stats.accepted > 0


def test_turns_after_the_first_are_generated_too():
    lines = stream(
        turn([1, 2, 3], target=False),
        turn([4, 5], target=True),
        turn([1, 2, 3], target=False),
        turn([4, 5, 4], target=True),
    )
    tally = replay_stream(lines, ConversationSource(), Limits(16, 1))
    assert (tally.tokens, tally.accepted) == (3, 1)


def recorded(category, prompt):
    session = ToySession(n_vocab=30, order=2)
    return record_run(session, prompt, category=category, max_tokens=120).stream()


@pytest.mark.parametrize("name", POLICIES)
def test_replays_of_every_policy_repeat_themselves(name):
    streams = [recorded("a", [1, 2]), recorded("b", [3, 4]), recorded("a", [5, 6])]
    policy = POLICIES[name]
    bench = Bench(30, COST_CURVES["native"])
    first, second = (replay(streams, policy.open(bench), policy.limits) for _ in range(2))
    assert first == second
    assert list(first) == ["a", "b"]
    assert first["a"].tokens == 2 * 119


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
