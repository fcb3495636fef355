"""What a draft source is told, and what it is asked."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from maglio.decode import Drafter, SourceCounts
from maglio.draft.source import Draft, DraftSource, Step
from maglio.errors import InvalidArgumentError
from support.decoding import PROMPT, SAMPLED, ids, plain_run
from support.toy_sources import ScriptedSource, perfect, spoil

RUN = plain_run(SAMPLED)


class CuriousSource(ScriptedSource):
    """Uses everything the seam offers and writes down what it hears."""

    def __init__(self, stream, draft, topk: int = 3) -> None:
        super().__init__(stream, draft)
        self.topk = topk
        self.limits: list[int] = []

    def propose(self, stream: Sequence[int], limit: int) -> Draft | None:
        self.limits.append(limit)
        draft = super().propose(stream, limit)
        part = "conversation" if self.proposals % 2 else "recycling"
        return None if draft is None else Draft(draft.tokens, part)

    def parts(self) -> Mapping[str, bool]:
        return {"conversation": False, "reference:0": True}


def test_every_committed_token_is_observed_once_in_order():
    source = CuriousSource(RUN.stream, lambda truth, call: spoil(truth[:4], call % 6, 60))
    decoder = RUN.decoder(source)
    list(decoder.generate(PROMPT, max_tokens=40))
    list(decoder.generate((1, 2), max_tokens=2))
    assert list(source.steps[0].tokens) == list(PROMPT)
    assert source.steps[0].fed == ()
    assert source.seen == list(decoder.tokens)[: len(source.seen)]
    assert len(source.seen) >= len(PROMPT) + 42
    assert all(len(step.tokens) > 0 for step in source.steps)


def test_the_best_candidates_of_every_row_are_delivered():
    source = CuriousSource(RUN.stream, lambda truth, call: spoil(truth[:4], 1, 60))
    engine = RUN.engine()
    decoder = RUN.decoder(source)
    list(decoder.generate(PROMPT, max_tokens=12))
    assert source.steps[0].top is None
    assert tuple(source.steps[1].fed) == PROMPT[-1:]  # the row that ends the prefill
    fed = [tuple(step.fed) for step in source.steps[2:]]
    assert fed == decoder.engine.forwards[: len(fed)]
    step = source.steps[2]
    assert step.top.shape == (5, 3)
    for index in range(5):
        row = engine.row([*RUN.stream[: len(PROMPT)], *step.fed[: index + 1]])
        assert step.top[index].tolist() == np.argsort(-row, kind="stable")[:3].tolist()


def test_a_source_without_use_for_candidates_costs_no_work(monkeypatch):
    monkeypatch.setattr("maglio._core.topk_rows", None)  # calling it would raise
    for source in (perfect(RUN.stream), CuriousSource(RUN.stream, lambda t, _: t[:3], topk=0)):
        decoder = RUN.decoder(source)
        assert ids(decoder.generate(PROMPT, max_tokens=12)) == RUN.output[:12]
        assert decoder.stats.source_error is None


@pytest.mark.parametrize("topk", [-1, 2.0, True])
def test_a_senseless_topk_is_refused(topk):
    with pytest.raises(InvalidArgumentError, match="topk"):
        RUN.decoder(CuriousSource(RUN.stream, lambda t, _: t, topk=topk))


@pytest.mark.parametrize("source", [None, object(), lambda stream, limit: None])
def test_what_is_not_a_source_is_refused(source):
    with pytest.raises(InvalidArgumentError, match="must be a DraftSource"):
        Drafter(source, 60)


def test_more_candidates_than_tokens_are_all_tokens():
    source = CuriousSource(RUN.stream, lambda t, _: t[:3], topk=1000)
    list(RUN.decoder(source).generate(PROMPT, max_tokens=5))
    assert source.steps[1].top.shape == (1, 60)


def test_a_step_says_what_was_judged_of_its_draft():
    drafts = [
        lambda truth: spoil(truth[:5], 2, 60),  # a rejection spends the rest
        lambda truth: [*truth[:3], 99],  # cut before the impossible token
        lambda truth: truth[:6],  # a stop comes after 4
        lambda truth: [],
    ]
    source = CuriousSource(RUN.stream, lambda truth, call: drafts[min(call, 3)](truth))
    decoder = RUN.decoder(source)
    stop = RUN.output[11]  # prefill 1, then 3, 4 and 4 tokens
    list(decoder.generate(PROMPT, max_tokens=60, stop_tokens=[stop]))
    list(decoder.generate((), max_tokens=1))  # what the stop left is told now
    judged = [
        (len(step.draft.tokens), step.accepted, len(step.tokens))
        for step in source.steps
        if step.draft is not None
    ]
    assert judged == [(5, 2, 3), (3, 3, 4), (4, 4, 4)]


def test_a_draft_counts_as_far_as_its_tokens_were_taken():
    source = CuriousSource(RUN.stream, lambda truth, _: truth[:5])
    decoder = RUN.decoder(source)
    generation = decoder.generate(PROMPT, max_tokens=20)
    for _ in range(3):
        next(generation)
    generation.close()
    list(decoder.generate((), max_tokens=2))
    step = source.steps[2]
    assert list(step.tokens) == list(step.draft.tokens) == RUN.output[1:3]
    assert step.accepted == len(step.fed) == len(step.top) == 2


def test_a_draft_lost_in_an_interruption_is_not_held_against_the_source():
    source = CuriousSource(RUN.stream, lambda truth, _: truth[:5])

    def fail(call: int) -> None:
        if call == 1:
            raise KeyboardInterrupt

    decoder = RUN.decoder(source, before_call=fail)
    with pytest.raises(KeyboardInterrupt):
        list(decoder.generate(PROMPT, max_tokens=20))
    assert decoder.stats.drafted == 0
    assert all(step.draft is None for step in source.steps)


@pytest.mark.parametrize(("room", "max_tokens"), [(20, 60), (200, 21)], ids=["context", "tokens"])
def test_a_limit_leaves_room_for_the_token_after_the_draft(room, max_tokens):
    source = CuriousSource(RUN.stream, lambda truth, call: [])
    decoder = RUN.decoder(source, n_ctx=len(PROMPT) + room)
    list(decoder.generate(PROMPT, max_tokens=max_tokens))
    assert source.limits == [
        16,
        16,
        16,
        *range(16, 0, -1),
    ]  # where there is no room it is not asked


def test_labels_and_mutes_of_a_composed_source_are_reported():
    source = CuriousSource(RUN.stream, lambda truth, _: truth[:2])
    decoder = RUN.decoder(source)
    tokens = list(decoder.generate(PROMPT, max_tokens=7))
    assert [t.source for t in tokens] == [
        *("model", "conversation", "conversation"),
        *("model", "recycling", "recycling", "model"),
    ]
    assert decoder.stats.sources == {
        "conversation": SourceCounts(2, 2),
        "reference:0": SourceCounts(0, 0, muted=True),
        "recycling": SourceCounts(2, 2),
    }


def test_a_source_cannot_write_to_the_stream():
    class Vandal(ScriptedSource):
        def propose(self, stream, limit):
            assert list(stream[-3:]) == self.stream[len(stream) - 3 : len(stream)]
            assert stream[0] == PROMPT[0]
            stream[0] = 1

    decoder = RUN.decoder(Vandal(RUN.stream, lambda t, _: t))
    with pytest.warns(RuntimeWarning, match="does not support item assignment"):
        assert ids(decoder.generate(PROMPT, max_tokens=9)) == RUN.output[:9]
    RUN.check(decoder, generated=9)


@pytest.mark.parametrize("at", range(1, 6))
def test_an_interrupt_while_a_source_learns_makes_it_start_again(at):
    class Interrupting(ScriptedSource):
        calls = 0

        def observe(self, step: Step) -> None:
            self.calls += 1
            if self.calls == at:
                raise KeyboardInterrupt
            super().observe(step)

    source = Interrupting(RUN.stream, lambda truth, _: truth[:3])
    decoder = RUN.decoder(source)
    with pytest.raises(KeyboardInterrupt):
        list(decoder.generate(PROMPT, max_tokens=20))
    begun = len(decoder.tokens) - len(PROMPT)
    list(decoder.generate((), max_tokens=20 - begun))
    RUN.check(decoder, generated=20)
    assert decoder.stats.source_error is None  # it checks that it sees the whole stream


@pytest.mark.parametrize("odds", [(0.9, float("nan"), 2.0, -1.0, 0.5), ("x",), (None,), 7])
def test_senseless_odds_change_speed_alone(odds):
    class Boastful(DraftSource):
        def propose(self, stream, limit):
            return Draft(RUN.stream[len(stream) :][:5], "boast", odds)

        def observe(self, step):
            pass

    decoder = RUN.decoder(Boastful())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert ids(decoder.generate(PROMPT, max_tokens=12)) == RUN.output[:12]
    RUN.check(decoder, generated=12)
