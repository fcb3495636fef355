"""What the decoder tells its source, and what it asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from maglio.decode import SourceCounts
from maglio.errors import InvalidArgumentError
from support.decoding import PROMPT, SAMPLED, ids, plain_run
from support.toy_sources import ScriptedSource, perfect, spoil

RUN = plain_run(SAMPLED)


class CuriousSource(ScriptedSource):
    """Has every optional capability and writes down what it hears."""

    def __init__(self, stream, draft, topk: int = 3) -> None:
        super().__init__(stream, draft)
        self.topk = topk
        self.heard: list[tuple[str, object]] = []

    def suggest(self, context: Sequence[int], limit: int):
        self.heard.append(("suggest", limit))
        return super().suggest(context, limit)

    def observe(self, committed: Sequence[int]) -> None:
        super().observe(committed)
        self.heard.append(("observe", tuple(committed)))

    def observe_topk(self, tokens: Sequence[int], candidates: np.ndarray) -> None:
        self.heard.append(("topk", (tuple(tokens), candidates)))

    def truncate_pending(self, n: int) -> None:
        self.heard.append(("truncate", n))

    @property
    def drafted_by(self) -> str:
        return "conversation" if self.suggestions % 2 else "recycling"

    def counts(self) -> Mapping[str, SourceCounts]:
        return {
            "conversation": SourceCounts(900, 90),
            "reference:0": SourceCounts(0, 0, muted=True),
        }

    def all(self, kind: str) -> list:
        return [what for name, what in self.heard if name == kind]


def test_every_committed_token_is_observed_once_in_order():
    source = CuriousSource(RUN.stream, lambda truth, call: spoil(truth[:4], call % 6, 60))
    decoder = RUN.decoder(source)
    list(decoder.generate(PROMPT, max_tokens=40))
    assert source.observed[0] == list(PROMPT)
    assert source.seen == list(decoder.tokens)
    assert all(source.observed)


def test_the_best_candidates_of_every_row_are_delivered():
    source = CuriousSource(RUN.stream, lambda truth, call: spoil(truth[:4], 1, 60))
    session = RUN.engine()
    decoder = RUN.decoder(source)
    list(decoder.generate(PROMPT, max_tokens=12))
    heard = source.all("topk")
    assert heard[0][0] == PROMPT[-1:]  # the row of the prefill
    assert [tokens for tokens, _ in heard[1:]] == decoder.engine.forwards
    tokens, candidates = heard[1]
    assert candidates.shape == (5, 3)
    for index in range(5):
        row = session.row([*RUN.stream[: len(PROMPT)], *tokens[: index + 1]])
        assert candidates[index].tolist() == np.argsort(-row, kind="stable")[:3].tolist()


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


def test_more_candidates_than_tokens_are_all_tokens():
    source = CuriousSource(RUN.stream, lambda t, _: t[:3], topk=1000)
    list(RUN.decoder(source).generate(PROMPT, max_tokens=5))
    assert source.all("topk")[0][1].shape == (1, 60)


def test_drafts_that_were_not_tried_to_the_end_are_reported():
    drafts = [
        lambda truth: spoil(truth[:5], 2, 60),  # a rejection was tried: nothing to report
        lambda truth: truth[:1],  # too short: a plain step
        lambda truth: [*truth[:3], 99],  # cut before the impossible token
        lambda truth: truth[:6],  # a stop comes after 4
    ]
    source = CuriousSource(RUN.stream, lambda truth, call: drafts[call](truth))
    decoder = RUN.decoder(source)
    # Prefill 1, then 3, 1, 4 and 4 tokens.
    asked: list[int] = []

    def should_stop(token: int) -> bool:
        asked.append(token)
        return len(asked) == 13

    list(decoder.generate(PROMPT, max_tokens=60, should_stop=should_stop))
    assert source.all("truncate") == [0, 3, 4]
    assert source.heard[-2:] == [("truncate", 4), ("observe", tuple(RUN.output[9:13]))]


def test_a_draft_lost_in_an_interruption_is_not_held_against_the_next_turn():
    source = CuriousSource(RUN.stream, lambda truth, _: truth[:5])

    def fail(call: int) -> None:
        if call == 1:
            raise KeyboardInterrupt

    decoder = RUN.decoder(source, before_call=fail)
    with pytest.raises(KeyboardInterrupt):
        list(decoder.generate(PROMPT, max_tokens=20))
    assert source.heard[-1] == ("truncate", 0)


@pytest.mark.parametrize(("room", "max_tokens"), [(20, 60), (200, 21)], ids=["context", "tokens"])
def test_a_limit_leaves_room_for_the_token_after_the_draft(room, max_tokens):
    source = CuriousSource(RUN.stream, lambda truth, call: [])
    decoder = RUN.decoder(source, n_ctx=len(PROMPT) + room)
    list(decoder.generate(PROMPT, max_tokens=max_tokens))
    # At most 16; a limit under min_draft is not even asked for.
    assert source.all("suggest") == [16, 16, 16, *range(16, 1, -1)]


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
        def suggest(self, context, limit):
            assert list(context[-3:]) == self.stream[len(context) - 3 : len(context)]
            assert context[0] == PROMPT[0]
            context[0] = 1
            return []

        def observe(self, committed):
            committed.clear()

    decoder = RUN.decoder(Vandal(RUN.stream, lambda t, _: t))
    with pytest.warns(RuntimeWarning, match="does not support item assignment"):
        assert ids(decoder.generate(PROMPT, max_tokens=9)) == RUN.output[:9]
    RUN.check(decoder, generated=9)
