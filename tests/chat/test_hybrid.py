"""Conversations with a model whose layers are recurrent: what is said, and what is read again."""

from __future__ import annotations

import pytest

import maglio
from support.chat_model import STOP, STRIPPING, chat_model

SAMPLED = maglio.SamplingParams(temperature=0.8, top_k=40, logit_bias={STOP: 3.0}, seed=11)
LONG = "a long text that the model has to read before it can say anything at all " * 3


class Reads:
    """Counts the tokens that a model is fed."""

    def __init__(self, model: maglio.Model, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tokens = 0
        forward = model.engine.forward

        def counting(batch):
            self.tokens += sum(len(segment.tokens) for segment in batch)
            return forward(batch)

        monkeypatch.setattr(model.engine, "forward", counting)

    def of(self, answer) -> int:
        before = self.tokens
        for _ in answer:
            pass
        return self.tokens - before


@pytest.fixture
def chat(hybrid_model) -> maglio.chat.Conversation:
    return hybrid_model.chat(sampling=SAMPLED, speculation=False, max_tokens=8)


def test_a_retry_reads_one_token(hybrid_model, chat, monkeypatch):
    reads = Reads(hybrid_model, monkeypatch)
    assert reads.of(chat.send(LONG)) > 150
    assert reads.of(chat.retry()) <= len(chat.turns[0].tokens)


def test_going_back_reads_no_more_than_an_answer_and_what_is_new(hybrid_model, chat, monkeypatch):
    reads = Reads(hybrid_model, monkeypatch)
    for text in (LONG, "and", "so", "on"):
        reads.of(chat.send(text))
    chat.undo(2)
    assert reads.of(chat.send("again")) < 60
    assert reads.of(chat.edit(1, "otherwise")) < 60
    assert reads.of(chat.edit(0, "from the beginning")) < 60


def test_a_template_that_writes_answers_anew_has_no_more_read_than_they_are(folder, monkeypatch):
    model = chat_model(folder, family="qwen35", n_ctx=1024, template=STRIPPING)
    chat = model.chat(sampling=SAMPLED, speculation=False, max_tokens=8)
    reads = Reads(model, monkeypatch)
    assert reads.of(chat.send(LONG)) > 150
    for _ in range(3):
        assert reads.of(chat.send("yes")) < 70


def test_a_fork_goes_back_too(hybrid_model, chat, monkeypatch):
    reads = Reads(hybrid_model, monkeypatch)
    for text in (LONG, "and"):
        reads.of(chat.send(text))
    branch = chat.fork()
    assert reads.of(branch.retry()) < 20
    assert reads.of(chat.retry()) < 20
    assert branch.turns[1].tokens == chat.turns[1].tokens
