"""What a grammar forces is drafted, as far as it proves right."""

from __future__ import annotations

from maglio.draft.forced import LABEL, ForcedTokens
from maglio.draft.source import Draft, Step


def step(forced: ForcedTokens, tokens: list[int], accepted: int) -> None:
    draft = Draft(tokens, LABEL)
    forced.learn(Step(tokens[: accepted + 1], (0, *tokens), draft, accepted))


def test_alone_it_is_the_draft():
    draft = ForcedTokens().join(None, [5, 6])
    assert draft is not None
    assert (draft.tokens, draft.source) == ([5, 6], LABEL)
    assert len(draft.odds) == 2
    assert ForcedTokens().join(None, []) is None


def test_a_draft_that_begins_with_it_stays_and_gains_certainty():
    draft = ForcedTokens().join(Draft([5, 6, 7], "conversation", [0.1, 0.1, 0.1]), [5, 6])
    assert draft is not None
    assert draft.source == "conversation"
    assert [round(p, 2) for p in draft.odds] == [0.95, 0.95, 0.1]


def test_of_two_that_differ_the_one_that_promises_more_is_taken():
    forced = ForcedTokens()
    sure, unsure = Draft([1] * 4, "a", [0.99] * 4), Draft([1], "a", [0.5])
    assert forced.join(sure, [5]) is sure
    taken = forced.join(unsure, [5, 6])
    assert taken is not None
    assert taken.source == LABEL


def test_it_learns_how_often_a_model_splits_text_in_another_way():
    forced = ForcedTokens()
    before = forced.odds
    for _ in range(60):
        step(forced, [5, 6, 7], 0)
    assert forced.odds < 0.4 < before
    for _ in range(600):
        step(forced, [5, 6, 7], 3)
    assert forced.odds > 0.9
    forced.learn(Step((1,), (0, 1), Draft([1], "conversation"), 1))
