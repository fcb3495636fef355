"""Ctrl-C at any line of a turn loses nothing that was said, and says nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

import maglio
from support.chat_model import STOP
from support.interrupts import interrupt_at

PACKAGE = Path(maglio.__file__).parent
WATCHED = (str(PACKAGE / "chat"), str(PACKAGE / "text"), str(PACKAGE / "generation.py"))
SAMPLED = maglio.SamplingParams(temperature=0.9, logit_bias={STOP: 3.5}, seed=7)
EVERY = 7
"""Interrupts are tried at every seventh line, from several beginnings."""


def interrupted(action, at: int) -> bool:
    """Run ``action`` with an interrupt at line ``at``; whether there was one."""
    try:
        with interrupt_at(at, *WATCHED):
            action()
    except KeyboardInterrupt:
        return True
    return False


def chat_of(model):
    chat = model.chat(sampling=SAMPLED, max_tokens=6, speculation=maglio.Speculation(gate=False))
    chat.send("hi").result()
    return chat


def check_goes_on(model, chat):
    """What comes next is what a conversation with the same turns and random numbers says."""
    other = model.chat(sampling=SAMPLED, max_tokens=6, speculation=False)
    other._history, other._rendered = chat._history, chat._rendered
    other._stream.go_on(SAMPLED, False, chat.position)
    assert chat.tokens[: len(other.tokens)] == other.tokens
    assert chat.send("on and on").result() == other.send("on and on").result()


@pytest.mark.parametrize("begin", range(3))
def test_an_answer_is_kept_once_wherever_it_is_interrupted(roomy_model, begin):
    said = chat_of(roomy_model)
    first = said.tokens
    whole = said.send("the quick brown fox").result()
    at, hit = begin + 1, True
    while hit:
        chat = chat_of(roomy_model)
        answers = []

        def talk(chat=chat, answers=answers):
            answer = chat.send("the quick brown fox")
            answers.append(answer)
            answer.result()

        hit = interrupted(talk, at)
        turns = chat.turns
        assert turns[0] == said.turns[0] or turns[0].answer == said.turns[0].answer
        assert len(turns) in (1, 2)
        if len(turns) == 1:
            assert chat.tokens == first
        else:
            assert whole.startswith(turns[1].answer)
            assert said.turns[1].tokens[: len(turns[1].tokens)] == turns[1].tokens
        if answers:
            assert len(turns) == 1 + bool(answers[0].text or answers[0].tokens)
        check_goes_on(roomy_model, chat)
        at += EVERY
    assert at > 200


def test_an_edit_that_is_interrupted_changes_nothing_or_answers(roomy_model):
    at, hit = 1, True
    while hit:
        chat = chat_of(roomy_model)
        before = chat.turns
        opened = []
        hit = interrupted(lambda chat=chat, opened=opened: opened.append(chat.edit(0, "hey")), at)
        if opened:
            opened[0].close()
            assert chat.turns == ()  # interrupted before a token
        else:
            assert [turn.answer for turn in chat.turns] in ([before[0].answer], [])
        check_goes_on(roomy_model, chat)
        at += 3
    assert at > 50
