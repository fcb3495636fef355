"""Conversations as token streams, in the format of the model that would have them."""

from __future__ import annotations

import pytest

from maglio.bench.data.dialogue import Dialogue, Message
from maglio.bench.stream import ModelText, encode_dialogue, encode_prompt
from maglio.text import ChatTemplate, from_metadata
from support.chat_model import STOP, TEMPLATE, vocabulary
from support.spm_vocabulary import SPM

TOKENIZER = from_metadata(vocabulary())
OWN = (
    "{% for m in messages %}<|im_start|>[{{ m.role }}] {{ m.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>[assistant] {% endif %}"
)
TALK = (
    Message("system", "be kind"),
    Message("user", "hello <|im_end|>"),
    Message("assistant", "hi there"),
    Message("user", "and on"),
    Message("assistant", "on and on"),
)


@pytest.mark.parametrize("source", [TEMPLATE, OWN, None])
def test_the_turns_joined_are_the_conversation_as_the_template_writes_it(source):
    template = ChatTemplate(source, TOKENIZER)
    stream = encode_dialogue("talk", Dialogue("", TALK), ModelText(TOKENIZER, template))
    joined = [token for turn in stream.turns for token in turn.tokens.tolist()]
    messages = [{"role": m.role, "content": m.text} for m in TALK]
    whole = template.encode(template.render(messages, add_generation_prompt=False))
    assert joined == whole[: len(joined)]
    assert TOKENIZER.decode(whole[len(joined) :]).strip() == ""
    assert [turn.is_target for turn in stream.turns] == [False, True, False, True]
    said = [turn.tokens.tolist() for turn in stream.turns if turn.is_target]
    assert [tokens[-1] for tokens in said] == [STOP, STOP]
    assert [TOKENIZER.decode(tokens) for tokens in said] == ["hi there", "on and on"]


def test_a_prompt_is_the_one_a_chat_would_send():
    template = ChatTemplate(OWN, TOKENIZER)
    ids = encode_prompt(TALK[:2], ModelText(TOKENIZER, template))
    assert TOKENIZER.decode(ids) == "[system] be kind[user] hello <|im_end|>[assistant] "
    assert ids.count(STOP) == 2  # the one in the message is text


def test_a_base_model_reads_paragraphs():
    tokenizer = from_metadata(SPM)
    text = ModelText(tokenizer, ChatTemplate(None, tokenizer))
    assert text.is_plain
    stream = encode_dialogue("talk", Dialogue("", TALK[1:3]), text)
    assert [turn.is_target for turn in stream.turns] == [False, True, False]
    assert tokenizer.decode(stream.turns[1].tokens.tolist(), continues=True).strip() == "hi there"
    assert encode_prompt([Message("user", "a")], text) == tokenizer.encode("a\n\n")


def test_what_a_template_writes_anew_is_read_anew():
    forgetful = TEMPLATE.replace("{{ message.content }}", "{{ message.content[:2] }}")
    text = ModelText(TOKENIZER, ChatTemplate(forgetful, TOKENIZER))
    stream = encode_dialogue("talk", Dialogue("", TALK), text)
    third = stream.turns[2].tokens.tolist()
    assert not stream.turns[2].is_target
    assert TOKENIZER.decode(third).startswith("system\nbe")


def test_what_a_template_reads_besides_can_be_given():
    thoughtful = TEMPLATE + "{{ '' if enable_thinking is false else '<think>' }}"
    template = ChatTemplate(thoughtful, TOKENIZER)
    ends = [
        TOKENIZER.decode(encode_prompt(TALK[:2], ModelText(TOKENIZER, template, variables=values)))
        for values in (None, {"enable_thinking": False})
    ]
    assert ends == [f"{ends[1]}<think>", ends[1]]


@pytest.mark.parametrize("tokenizer", [TOKENIZER, from_metadata(SPM)])
def test_what_an_answer_is_made_from_comes_with_its_turn(tokenizer):
    text = ModelText(tokenizer, ChatTemplate(None, tokenizer))
    with_material = Dialogue("edit", TALK[1:3], material="hi there")
    turns = encode_dialogue("edits", with_material, text).turns
    given, target = turns[:2]
    assert given.material is None
    assert target.material.tolist() == tokenizer.encode("hi there", add_special=False)
    without = encode_dialogue("edits", Dialogue("", TALK[1:3]), text).turns
    assert all(turn.material is None for turn in without)
