"""What passes through the drafting seam: drafts, steps, and what a source may leave out."""

from __future__ import annotations

import numpy as np
import pytest

from maglio.draft.source import Draft, DraftSource, Step
from maglio.economics.gate import CALIBRATED_GATE

DRAFT = Draft((3, 4, 5), "conversation", (0.9, 0.8, 0.7))
TOP = np.arange(8, dtype=np.int32).reshape(4, 2)


@pytest.mark.parametrize("n", [0, 2, 3, 99])
def test_a_shorter_draft_keeps_its_source_and_the_odds_of_its_tokens(n):
    assert DRAFT.first(n) == Draft((3, 4, 5)[:n], "conversation", (0.9, 0.8, 0.7)[:n])
    assert DRAFT.tokens == (3, 4, 5)


def test_a_draft_without_odds_stays_one():
    assert Draft([3, 4]).first(1) == Draft([3], "draft", ())


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_step_of_which_a_part_stays_tells_of_that_part(kept):
    part = Step((3, 4, 9), (2, 3, 4, 5), DRAFT, 2, TOP).first(kept)
    assert (part.tokens, part.fed) == ((3, 4, 9)[:kept], (2, 3, 4, 5)[:kept])
    assert (part.draft, part.accepted) == (DRAFT.first(kept), kept)
    assert part.top.tolist() == TOP[:kept].tolist()


@pytest.mark.parametrize("kept", [3, 4, 99])
def test_a_step_that_stays_whole_keeps_its_rejected_tokens_and_their_rows(kept):
    step = Step((3, 4, 9), (2, 3, 4, 5), DRAFT, 2, TOP)
    assert step.first(kept) is step


def test_a_part_of_a_prompt_is_a_prompt():
    part = Step((1, 2, 3)).first(2)
    assert (part.tokens, part.fed, part.draft, part.accepted, part.top) == (
        (1, 2),
        (),
        None,
        0,
        None,
    )


def test_a_source_is_two_methods():
    class Least(DraftSource):
        def propose(self, stream, limit):
            return Draft([1])

        def observe(self, step):
            pass

    source = Least()
    assert source.topk == 0
    assert source.gate is CALIBRATED_GATE
    assert dict(source.parts()) == {}
    assert source.rewind([1, 2]) is None
    for missing in (lambda: DraftSource().propose([], 1), lambda: DraftSource().observe(Step(()))):
        with pytest.raises(NotImplementedError):
            missing()
