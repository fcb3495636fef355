"""The account of a generation: what steps say was judged and accepted, by source."""

from __future__ import annotations

from maglio.decode.stats import GenerationStats, SourceCounts, StatsRecorder
from maglio.draft.source import Draft, Step

DRAFT = Draft([3, 4, 5, 6, 7, 8], "conversation")


def counted(*steps: Step) -> GenerationStats:
    recorder = StatsRecorder()
    for step in steps:
        recorder.record(step)
    return recorder.snapshot({"conversation": False, "reference:0": True}, None)


def test_a_source_is_credited_with_what_was_judged_and_accepted():
    stats = counted(
        Step([3, 4, 9], [2, *DRAFT.tokens], DRAFT, 2),
        Step([5], [9]),
        Step([3, 4], [5, 3, 4], Draft([3, 4], "recycling"), 2),
    )
    assert stats.sources == {
        "conversation": SourceCounts(6, 2),
        "reference:0": SourceCounts(0, 0, muted=True),
        "recycling": SourceCounts(2, 2),
    }
    assert (stats.drafted, stats.accepted) == (8, 4)
    assert (stats.steps, stats.verify_steps, stats.committed) == (3, 2, 6)


def test_a_step_without_a_draft_is_held_against_nobody():
    stats = counted(Step([3, 4], [2, 3], None), Step([5], [4]))
    assert stats.sources["conversation"] == SourceCounts(0, 0)
    assert (stats.steps, stats.verify_steps) == (2, 0)


def test_only_what_was_judged_is_counted():
    # A generation ended after the second of six draft tokens.
    stats = counted(Step([3, 4], [2, *DRAFT.tokens], DRAFT.first(2), 2))
    assert stats.sources["conversation"] == SourceCounts(2, 2)
    assert stats.acceptance_rate == 1.0


def test_a_step_that_is_delivered_in_part_counts_in_part():
    recorder = StatsRecorder()
    whole = Step([3, 4, 9], [2, *DRAFT.tokens], DRAFT, 2)
    for kept, counts in ((1, SourceCounts(1, 1)), (2, SourceCounts(2, 2)), (3, SourceCounts(6, 2))):
        stats = recorder.with_step(whole.first(kept)).snapshot({}, None)
        assert (stats.sources["conversation"], stats.committed) == (counts, kept)
    assert recorder.with_step(Step(())).snapshot({}, None).steps == 0


def test_a_piece_of_a_prompt_is_no_step():
    assert counted(Step(())).steps == 0
