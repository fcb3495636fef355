"""The format of a model is found from its chat template alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from maglio.calls import ROWS, CallArguments, CallBegan, format_of
from maglio.text import ChatTemplate
from support.call_templates import REAL, TEMPLATES, tokenizer_of
from support.templates import llama_cpp


def found(source, *, control=True):
    return format_of(ChatTemplate(source, tokenizer_of(source, control=control)))


@pytest.mark.parametrize("control", [True, False])
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_s_own_calls_say_which_format_it_is(name, control):
    form = found(TEMPLATES[name], control=control)
    assert form.name == name
    assert form.describes_tools
    assert form.arguments_as == "mapping"


@pytest.mark.parametrize("name", REAL)
def test_real_templates_are_recognised(name):
    sources = llama_cpp()
    if not sources:
        pytest.skip("MAGLIO_TEMPLATES names no folder")
    form = found(sources[name])
    assert form.name == REAL[name]
    without = ("google-gemma-2-2b-it", "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B")
    assert form.describes_tools == (name not in without)


def test_a_template_that_wants_arguments_as_json_gets_them_so():
    source = TEMPLATES["hermes"].replace("f.arguments | tojson", "'' + f.arguments")
    form = found(source)
    assert (form.name, form.arguments_as) == ("hermes", "text")


def test_a_template_that_leaves_earlier_calls_out_is_known_by_its_tokens():
    source = TEMPLATES["lfm2"].replace("{% if m.tool_calls %}", "{% if false %}")
    source += "{# <|tool_list_start|> #}"
    assert found(source).name == "lfm2"


@pytest.mark.parametrize("source", [
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}",
    "{% for m in messages %}{{ m.content }}{{ raise_exception('no') if m.tool_calls }}{% endfor %}",
    "{{ tools | tojson if tools else '' }}{% for m in messages %}{{ m.content }}{% endfor %}",
])  # fmt: skip
def test_where_no_format_is_found_a_system_message_tells_of_tools(source):
    form = found(source)
    assert form.name == "hermes"
    assert not form.describes_tools
    tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    call = {"function": {"name": "look", "arguments": '{"at": "é"}'}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": "Yes.", "tool_calls": [call]},
        {"role": "tool", "content": "a cat"},
        {"role": "user", "content": [{"type": "text", "text": "And?"}]},
    ]
    told = form.messages(messages, tools)
    assert [message["role"] for message in told] == ["system", "user", "assistant", "user"]
    assert told[0]["content"].startswith("Be brief.\n\n")
    assert json.dumps(tools[0]["function"]) in told[0]["content"]
    assert told[2]["content"].startswith("Yes.\n<tool_call>\n")
    assert form.reader(tools).push(told[2]["content"])[1:] == [
        CallBegan(0, "look"),
        CallArguments(0, '{"at": "é"}'),
    ]
    assert "tool_calls" not in told[2]
    assert told[3]["content"] == "<tool_response>\na cat\n</tool_response>\nAnd?"
    assert form.messages(messages[1:2], tools)[0]["role"] == "system"
    assert form.messages(messages, ())[0]["content"] == "Be brief."


def test_a_broken_template_has_the_commonest_format():
    form = found("{{ broken }")
    assert (form.name, form.describes_tools, form.takes_system) == ("hermes", False, False)


@pytest.mark.parametrize("first", ["system", "user"])
def test_where_there_are_no_system_messages_the_user_tells_of_tools(first):
    refuses = "{{ raise_exception('no') if messages[0].role == 'system' }}"
    source = refuses + "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    form = found(source)
    assert not form.takes_system
    tools = [{"type": "function", "function": {"name": "look"}}]
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Look."}]
    told = form.messages(messages if first == "system" else messages[1:], tools)
    assert [message["role"] for message in told] == ["user"]
    assert '{"name": "look"}' in told[0]["content"]
    assert told[0]["content"].endswith("\n\nLook.")
    assert told[0]["content"].startswith("Be brief.") == (first == "system")


@pytest.mark.parametrize(
    ("name", "thinking"),
    [
        ("hermes", "<think>"),
        ("seed-oss", "<seed:think>"),
        ("gemma4", "<|channel>thought"),
        ("mistral-named", "[THINK]"),
        ("cohere", "<|START_THINKING|>"),
    ],
)
def test_how_a_template_writes_thoughts_is_found(name, thinking):
    form = found(TEMPLATES[name])
    assert form.thinking.begin == thinking
    assert form.begins_thinking(f"<|im_start|>assistant\n{thinking}\n")
    assert not form.begins_thinking(f"<|im_start|>assistant\n{thinking}x{form.thinking.end}\n\n")


def test_a_template_without_thoughts_has_none():
    form = found(TEMPLATES["llama3"])
    assert form.thinking is None
    assert not form.begins_thinking("<think>\n")


def test_no_row_takes_another_s_place():
    assert len({row.name for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert row.sign
        for one in row.triggers:
            assert not any(one != two and two.startswith(one) for two in row.triggers)


def test_the_page_lists_every_format():
    page = (Path(__file__).parents[2] / "docs/tool-calls.md").read_text()
    table = page.partition("| format |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"^\| `([a-z0-9.-]+)` \|", table, re.MULTILINE)) == sorted(
        row.name for row in ROWS
    )
