"""A draft source of the caller's own, in a conversation that changes under it."""

from __future__ import annotations

import pytest

import maglio
from maglio.draft.source import DraftSource
from maglio.errors import InvalidArgumentError
from support.chat_model import STOP

SAMPLED = maglio.SamplingParams(temperature=0.9, logit_bias={STOP: 3.5}, seed=7)


class Follows(DraftSource):
    """Knows the stream; drafts nothing."""

    def __init__(self):
        self.seen = []

    def propose(self, stream, limit):
        assert self.seen == list(stream)

    def observe(self, step):
        self.seen += step.tokens

    def rewind(self, stream):
        self.seen = list(stream)


def test_a_source_follows_when_sampling_or_speculation_are_set_anew(roomy_model):
    source = Follows()
    chat = roomy_model.chat(
        sampling=SAMPLED, speculation=maglio.Speculation(source=source, gate=False)
    )
    chat.send("hi").result()
    chat.sampling = maglio.SamplingParams()
    chat.send("hi").result()
    assert chat.turns[-1].stats.source_error is None
    chat.speculation = maglio.Speculation(source=source)
    chat.undo()
    chat.send("on").result()
    assert chat.turns[-1].stats.source_error is None
    assert tuple(source.seen) == chat.tokens[: len(source.seen)]


def test_a_source_cannot_follow_two_conversations(roomy_model):
    chat = roomy_model.chat(sampling=SAMPLED, speculation=maglio.Speculation(source=Follows()))
    chat.send("hi").result()
    with pytest.raises(InvalidArgumentError, match="function that makes one"):
        chat.fork()
    how = maglio.Speculation(source=lambda setting: Follows())
    chat = roomy_model.chat(sampling=SAMPLED, speculation=how)
    chat.send("hi").result()
    branch = chat.fork()
    assert branch.send("on").result() == chat.send("on").result()
