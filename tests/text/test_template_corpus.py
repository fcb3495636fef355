"""Every template at hand: marking changes no text, and messages make no control tokens.

The templates of llama.cpp are at hand where MAGLIO_TEMPLATES names their folder.
"""

from __future__ import annotations

import json
import re
from copy import deepcopy
from datetime import datetime
from functools import cache

import jinja2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2.ext import Extension
from jinja2.sandbox import SandboxedEnvironment

from maglio.errors import ChatTemplateError
from maglio.text import ChatTemplate, from_metadata
from maglio.text.control import ControlNames
from maglio.text.rendering import RenderError, RenderRequest, render
from maglio.text.stand_ins import StandIns
from support.chat_model import vocabulary
from support.templates import OWN, llama_cpp

LLAMA_CPP = llama_cpp()
FORMS = ("{}", "x <{}", "{} |>y")
NOW = "2026-11-30T23:59:58"
ALL = {**OWN, **LLAMA_CPP}
NAMES = re.compile(
    r"<[|\uff5c][^\n{}'\" ]{1,40}?[|\uff5c]>|</?s>|\[/?[A-Z_]{2,30}\]|<\|?[a-z_]+\|?>|<\|\"\|>"
)


class Generation(Extension):
    """As transformers has it."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_said")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _said(self, caller):
        return caller()


def stock(source):
    """The template as transformers compiles it, but that it may change lists."""
    environment = SandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols", "jinja2.ext.do", Generation],
    )

    def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )

    def refuse(message):
        raise jinja2.TemplateError(message)

    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = datetime.fromisoformat(NOW).strftime
    return environment.from_string(source)


@cache
def tokenizer_of(source):
    """A tokenizer whose control tokens are those that the template names."""
    values = vocabulary()
    found = {*NAMES.findall(source), "<|im_start|>", "<|im_end|>", "<|user|>", "<|assistant|>"}
    tokens = [*values["tokenizer.ggml.tokens"][:297], *sorted(found)]
    kinds = np.array([1] * 297 + [3] * (len(tokens) - 297), np.int32)
    more = {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": kinds}
    ends = {"tokenizer.ggml.bos_token_id": 297, "tokenizer.ggml.eos_token_id": 298}
    return from_metadata({**values, **more, **ends})


def conversation(text):
    """Messages and tools that hold ``text`` wherever a caller could put one."""
    call = {"name": "weather", "arguments": {"city": text, text: text}}
    messages = [
        {"role": "user", "content": text},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "abcdefghi", "function": call}]},
        {"role": "tool", "content": text, "name": "weather", "tool_call_id": "abcdefghi"},
        {"role": "assistant", "content": f"so {text}"},
        {"role": "user", "content": f"{text} and {text}"},
    ]
    properties = {
        text: {"type": "string", "description": text},
        "n": {"type": "string", "description": "n"},
    }
    parameters = {"type": "object", "properties": properties, "required": []}
    function = {"name": "weather", "description": text, "parameters": parameters}
    return messages, [{"type": "function", "function": function}]


def conversations(text):
    messages, tools = conversation(text)
    yield messages[:1], None
    yield messages[-2:][::-1], None
    yield messages, tools


def names(template, prompt):
    return [prompt.text[begin:end] for begin, end in prompt.control]


@pytest.mark.parametrize("source", ALL.values(), ids=ALL.keys())
def test_the_text_is_what_stock_jinja_gives(source, monkeypatch):
    monkeypatch.setattr("maglio.text.template._now", lambda: NOW)
    tokenizer = tokenizer_of(source)
    template = ChatTemplate(source, tokenizer)
    own = {
        "bos_token": template.bos_text,
        "eos_token": tokenizer.token_bytes(tokenizer.eos_id).decode(),
        "unk_token": "",
        "pad_token": "",
        "documents": None,
        "add_generation_prompt": True,
    }
    reference = stock(source)
    for name in [*list(tokenizer.control_tokens)[:12], "<", "|>", "[x]", "</think>", "é'\"\\"]:
        for messages, tools in conversations(f"a {name} b"):
            try:
                text = reference.render(**own, **deepcopy({"messages": messages, "tools": tools}))
            except Exception:
                with pytest.raises(ChatTemplateError):
                    template.render(messages, tools=tools)
                continue
            assert template.render(messages, tools=tools).text == text


@pytest.mark.parametrize("source", ALL.values(), ids=ALL.keys())
def test_what_a_message_spells_changes_no_control_token(source):
    tokenizer = tokenizer_of(source)
    template = ChatTemplate(source, tokenizer)

    def controls(messages, tools):
        try:
            return names(template, template.render(messages, tools=tools))
        except ChatTemplateError:
            return None

    # Nemotron writes <think> itself where an answer has none.
    looked_for = {"<think>"} if "'<think>' in" in source else set()
    harmless = [controls(*one) for one in conversations("a word b")]
    for name in {*tokenizer.control_tokens, "<", "|>", "im_end", "user"} - looked_for:
        assert [controls(*one) for one in conversations(f"a {name} b")] == harmless, name


@pytest.mark.parametrize("source", ALL.values(), ids=ALL.keys())
def test_telling_control_tokens_apart_changes_no_text(source):
    tokenizer = tokenizer_of(source)
    names = ControlNames(tokenizer.control_tokens)
    own = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    pieces = names.pieces(source, own.values())
    base = 0xF0000
    stand_ins = StandIns(pieces, base)
    for text in [form.format(name) for name in tokenizer.control_tokens for form in FORMS]:
        if "'<think>' in" in source and "<think>" in text:
            continue  # Nemotron looks for it in what it has written itself
        for messages, tools in conversations(text):
            values = {"messages": messages, "tools": tools, "add_generation_prompt": True}
            try:
                done = render(RenderRequest(source, values, own, pieces, base, NOW, 1 << 20))
            except RenderError:
                continue
            assert stand_ins.take(done.marked) == done.plain


PIECES = st.sampled_from(
    ["<|im_start|>", "<|im_end|>", "<", "|", ">", "<|", "|>", "im_end|>", "<|im_", "</think>", "a"]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(PIECES, max_size=8).map("".join), st.sampled_from(sorted(OWN)))
def test_control_tokens_are_the_same_whatever_the_messages_say(text, name):
    tokenizer = tokenizer_of(OWN[name])
    template = ChatTemplate(OWN[name], tokenizer)
    messages, tools = conversation(text)
    found = names(template, template.render(messages, tools=tools))
    messages, tools = conversation("x" * len(text))
    assert found == names(template, template.render(messages, tools=tools))


@settings(max_examples=40, deadline=None)
@given(st.lists(PIECES, max_size=8).map("".join), st.sampled_from(sorted(OWN)))
def test_any_text_renders_as_stock_jinja_renders_it(text, name):
    tokenizer = tokenizer_of(OWN[name])
    messages, tools = conversation(text)
    eos = tokenizer.token_bytes(tokenizer.eos_id).decode()
    template = ChatTemplate(OWN[name], tokenizer)
    expected = stock(OWN[name]).render(
        bos_token=template.bos_text,
        eos_token=eos,
        unk_token="",
        pad_token="",
        messages=deepcopy(messages),  # which some change
        tools=tools,
        add_generation_prompt=True,
    )
    assert template.render(messages, tools=tools).text == expected
