"""A grammar of calls lets through what a template writes, and what it lets through is a call."""

from __future__ import annotations

import json
import random

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio.calls import ROWS, CallFormat, format_of, values
from maglio.calls.rows import HERMES, Thinking
from maglio.errors import GrammarError, InvalidArgumentError
from maglio.grammar import Grammar, GrammarCompiler
from maglio.text import ChatTemplate
from support.call_templates import ONE_CALL, REAL, TEMPLATES, tokenizer_of
from support.templates import llama_cpp

BOUNDED = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Rome", 'Bern\'s "old" town\n\\']},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
        "exact": {"type": "boolean"},
        "area": {
            "type": "object",
            "properties": {"x": {"enum": [1, 2]}, "y": {"type": "null"}},
            "required": ["y"],
            "additionalProperties": False,
        },
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
        "note": {"type": "string", "maxLength": 20},
    },
    "required": ["city", "area", "note"],
    "additionalProperties": False,
}
EMPTY = {"type": "object", "properties": {}, "additionalProperties": False}
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "parameters": BOUNDED}},
    {"type": "function", "function": {"name": "go", "parameters": EMPTY}},
]
CALL = ("get_weather", {"city": "Rome", "days": 3, "area": {"y": None}, "note": "a b"})
SORTED = ("get_weather", {key: CALL[1][key] for key in sorted(CALL[1])})


class Setting:
    """A format, a tokenizer, and grammars for it."""

    def __init__(self, source, *, control):
        self.tokenizer = tokenizer_of(source, control=control)
        self.template = ChatTemplate(source, self.tokenizer)
        self.form = format_of(self.template)
        self.compiler = GrammarCompiler(self.tokenizer, self.tokenizer.n_vocab)

    def ids(self, text):
        return self.tokenizer.encode(text, add_special=False, parse_special=True, continues=True)

    def text(self, ids):
        return self.tokenizer.decode(ids, show_control=True, continues=True)

    def rendered(self, calls, reasoning=None):
        asked = {"role": "user", "content": "?"}
        made = [{"id": "abcdefghi", "function": {"name": n, "arguments": a}} for n, a in calls]
        answer = {"role": "assistant", "content": "", "tool_calls": made}
        if reasoning is not None:
            answer["reasoning_content"] = reasoning
        head = "<|start|>assistant" if self.form.name == "harmony" else "<|im_start|>assistant\n"
        text = self.template.render([asked, answer], tools=TOOLS, add_generation_prompt=False).text
        text = text[text.rindex(head) + len(head) :]
        return text.removesuffix("<|im_end|>\n").removesuffix("<|call|>")

    def accepts(self, grammar, text):
        """Whether a text may be written under a grammar, to its end."""
        constraint = self.compiler.start(grammar)
        tokens = [*self.ids(text), self.tokenizer.eos_id]
        return constraint.admissible(tokens) == len(tokens)

    def walk(self, grammar, rng, closings=(), limit=2500):
        """A random text under a grammar; ``None`` if it does not end in time."""
        constraint, tokens = self.compiler.start(grammar), []
        closings = [self.ids(text) for text in closings if text]
        while len(tokens) < limit:
            if closings and rng.random() < 0.2:
                closing = rng.choice(closings)
                if constraint.admissible(closing) == len(closing):
                    constraint.extend(closing)
                    tokens += closing
                    continue
            bits = np.unpackbits(constraint.mask().view(np.uint8), bitorder="little")
            allowed = np.flatnonzero(bits).tolist()
            ends = [token for token in allowed if token in self.tokenizer.eog_ids]
            if ends and (len(ends) == len(allowed) or rng.random() < 0.6):
                return self.text(tokens)
            token = rng.choice([token for token in allowed if token not in ends])
            constraint.extend([token])
            tokens.append(token)
        return None


@pytest.fixture(scope="module", params=[True, False], ids=["control tokens", "text"])
def settings_by_name(request):
    return {name: Setting(source, control=request.param) for name, source in TEMPLATES.items()}


def called(setting, text, tools=TOOLS):
    """What the format's reader makes of a text: content, and calls."""
    reader = setting.form.reader(tools, whole_calls=True)
    deltas = reader.push(text) + reader.finish()
    kinds = {"ContentText": "", "ReasoningText": ""}
    calls = []
    for delta in deltas:
        kind = type(delta).__name__
        if kind in kinds:
            kinds[kind] += delta.text
        elif kind == "CallBegan":
            calls.append([delta.name, ""])
        else:
            calls[-1][1] += delta.text
    return kinds["ContentText"], [(name, json.loads(arguments)) for name, arguments in calls]


@pytest.mark.parametrize("name", TEMPLATES)
def test_what_a_template_writes_may_be_written(settings_by_name, name):
    setting = settings_by_name[name]
    call = SORTED if name == "gemma4" else CALL
    thoughts = [None, "hm, <b> is"] if setting.form.thinking else [None]
    for choice in ("auto", "required", "get_weather"):
        for reasoning in thoughts:
            text = setting.rendered([call], reasoning)
            grammar = setting.form.grammar(TOOLS, choice=choice)
            assert setting.accepts(grammar, text), text
            if reasoning is not None:
                inside = setting.form.grammar(TOOLS, choice=choice, reasoning=True)
                rest = text.removeprefix(setting.form.thinking.begin)
                assert setting.accepts(inside, rest), rest
    if name not in ONE_CALL:
        text = setting.rendered([call, ("go", {}), call])
        assert setting.accepts(setting.form.grammar(TOOLS), text)
        assert setting.accepts(setting.form.grammar(TOOLS, choice="required"), text)
        alone = setting.form.grammar(TOOLS, choice="required", parallel=False)
        assert not setting.accepts(alone, text)
        assert setting.accepts(alone, setting.rendered([call]))
    other = setting.form.grammar(TOOLS, choice="go")
    assert not setting.accepts(other, setting.rendered([call]))
    assert setting.accepts(other, setting.rendered([("go", {})]))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
@pytest.mark.parametrize("control", [True, False], ids=["control tokens", "text"])
def test_what_may_be_written_is_a_call(row, control):
    source = " ".join([*row.section, row.opening, row.after_name, *row.tags, row.closing])
    source += '<|"|>' if row.style == "gemma" else ""
    source += "<|channel|><|message|><|start|>" if row.style == "harmony" else ""
    setting = Setting("{# " + source + " #}{{ messages[0].content }}", control=control)
    setting.form = CallFormat(row, None, "mapping", True, True, setting.tokenizer.control_tokens)
    closings = (row.tags[2], "'", '"', '<|"|>')
    grammar = setting.form.grammar(TOOLS, choice="required", parallel=False)
    n_ended = 0
    for seed in range(12):
        text = setting.walk(grammar, random.Random(seed), closings)
        if text is None:
            continue
        n_ended += 1
        content, calls = called(setting, text)
        assert len(calls) == 1, text
        assert content == ""
        name, arguments = calls[0]
        if name == "get_weather":
            arguments["note"] = arguments["note"][:20]  # lengths are not for all notations
            arguments.get("tags", [])[2:] = []
        jsonschema.validate(arguments, BOUNDED if name == "get_weather" else EMPTY)
    assert n_ended >= 6


@pytest.mark.parametrize("name", TEMPLATES)
def test_an_answer_may_be_text_until_a_call_begins(settings_by_name, name):
    setting = settings_by_name[name]
    grammar = setting.form.grammar(TOOLS)
    if name == "harmony":
        final = "<|channel|>final<|message|>"
        assert setting.accepts(grammar, f"{final}a <text>\nof {{any}} kind [x]")
        return
    for text in ("", "a <text>\n\nof {any} kind [x] <tool>", "漢字 🙂"):
        assert setting.accepts(grammar, text), text
        assert not setting.accepts(setting.form.grammar(TOOLS, choice="required"), text)
    if setting.form.row.bare:
        return
    call = setting.rendered([SORTED if name == "gemma4" else CALL])
    assert setting.accepts(grammar, f"I look.\n\n{call}")
    broken = call.replace("get_weather", "get_wealth", 1)
    assert not setting.accepts(grammar, f"I look.\n\n{broken}")
    assert not setting.accepts(grammar, f"I look.\n\n{call[: len(call) // 2]}")


@pytest.mark.parametrize("name", TEMPLATES)
def test_an_answer_may_be_calls_or_keep_to_a_schema(settings_by_name, name):
    setting = settings_by_name[name]
    schema = {"type": "array", "items": {"enum": ["x", 2]}, "maxItems": 2}
    grammar = setting.form.grammar(TOOLS, content=schema)
    final = "<|channel|>final<|message|>" if name == "harmony" else ""
    call = setting.rendered([SORTED if name == "gemma4" else CALL])
    assert setting.accepts(grammar, f'{final}["x", 2]')
    assert setting.accepts(grammar, call)
    for other in ("some text", '["y"]', f'["x"]{call}', ""):
        assert not setting.accepts(grammar, final + other)
    must = setting.form.grammar(TOOLS, choice="required", content=schema)
    assert not setting.accepts(must, f'{final}["x"]')
    assert setting.accepts(must, call)


def test_text_of_a_thought_may_look_like_a_call(settings_by_name):
    setting = settings_by_name["hermes"]
    call = setting.rendered([CALL])
    text = f"<think>\nA <tool_call> is due.\n</think>\n\n{call}"
    assert called(setting, text)[1] == [CALL]
    if "<think>" not in setting.tokenizer.control_tokens:
        for choice in ("auto", "required"):
            assert setting.accepts(setting.form.grammar(TOOLS, choice=choice), text)


def test_an_answer_under_a_grammar_may_have_a_thought_first(settings_by_name):
    schema = Grammar.json_schema({"type": "object", "properties": {"n": {"type": "integer"}}})
    for name, thought in (
        ("hermes", "<think>\nhm {\n</think>\n\n"),
        ("gemma4", "<|channel>thought\nhm {\n<channel|>"),
        ("harmony", "<|channel|>analysis<|message|>hm {<|end|><|start|>assistant"
                    "<|channel|>final<|message|>"),
    ):  # fmt: skip
        setting = settings_by_name[name]
        grammar = setting.form.thinking_first(schema)
        assert setting.accepts(grammar, thought + '{"n": 1}')
        assert not setting.accepts(grammar, thought + "one")
        if setting.form.thinking:
            assert setting.accepts(grammar, '{"n": 1}')
            inside = setting.form.thinking_first(schema, reasoning=True)
            rest = thought.removeprefix(setting.form.thinking.begin)
            assert setting.accepts(inside, rest + '{"n": 1}')
            assert not setting.accepts(inside, '{"n": 1}')
    plain = settings_by_name["llama3"].form
    assert plain.thinking_first(schema) == schema


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_a_free_walk_ends_in_a_call_or_in_text(seed):
    rng = random.Random(seed)
    setting = SETTING
    text = setting.walk(setting.form.grammar(TOOLS), rng, ["I <tool_call>", "<tool_call>"], 400)
    if text is None:
        return
    content, calls = called(setting, text)
    assert len(calls) == text.count('\n{"name": ')
    if not calls:
        assert content == text


SETTING = Setting(TEMPLATES["hermes"].replace("think>", "thought>"), control=False)


def test_a_schema_that_no_grammar_has_is_left_open_unless_the_tool_is_strict(settings_by_name):
    setting = settings_by_name["hermes"]
    parameters = {"type": "object", "properties": {"x": {"type": "array", "uniqueItems": True}}}
    tool = {"name": "go", "parameters": parameters}
    grammar = setting.form.grammar([{"function": tool}])
    assert setting.accepts(grammar, setting.rendered([("go", {"x": [1, 1]})]))
    strict = setting.form.grammar([{"function": {**tool, "strict": True}}])
    with pytest.raises(GrammarError, match="uniqueItems"):
        setting.compiler.start(strict)


@pytest.mark.parametrize("name", ["hermes", "qwen3-coder", "gemma4", "lfm2", "harmony"])
def test_sixty_tools_of_a_hundred_kilobytes_fit(name):
    setting = Setting(TEMPLATES[name], control=True)
    tools = [
        {"type": "function", "function": {"name": f"tool_{i}", "parameters": {
            "type": "object",
            "properties": {f"p{j}_{i}": {"type": kind, "description": "words " * 20}
                           for j, kind in enumerate(["string", "integer", "boolean"] * 4)},
            "required": [f"p0_{i}"],
        }}}
        for i in range(60)
    ]  # fmt: skip
    assert len(json.dumps(tools)) > 100_000
    call = ("tool_59", {"p0_59": "a <b>", "p1_59": 3, "p10_59": 4})
    text = setting.rendered([call])
    assert setting.accepts(setting.form.grammar(tools), text)
    assert called(setting, text, tools)[1] == [call]
    assert not setting.accepts(setting.form.grammar(tools), text.replace("tool_59", "tool_60"))


@pytest.mark.parametrize("name", ["qwen3-coder", "gemma4", "lfm2"])
def test_a_grammar_that_would_be_too_long_is_not_written_to_its_end(monkeypatch, name):
    """Each argument takes a copy of what the schema defines."""
    setting = Setting(TEMPLATES[name], control=True)
    parameters = {
        "type": "object",
        "properties": {f"p{i}": {"type": "integer"} for i in range(500)},
        "$defs": {"long": {"description": "x" * 100_000}},
    }
    written = []
    json_value = values.json_value
    monkeypatch.setattr(
        values, "json_value", lambda *of, **how: written.append(1) or json_value(*of, **how)
    )
    with pytest.raises(GrammarError, match="smaller schemas"):
        setting.form.grammar([{"function": {"name": "f", "parameters": parameters}}])
    assert 0 < len(written) < 200


def test_tools_and_choices_that_do_not_fit_are_refused():
    form = CallFormat(HERMES, Thinking("<think>", "</think>"), "mapping", True, True, {})
    with pytest.raises(InvalidArgumentError, match=r"tool choice 'x' is none of the tools: .*go"):
        form.grammar(TOOLS, choice="x")
    with pytest.raises(InvalidArgumentError, match="no tools"):
        form.grammar([])
    for wrong in ({}, {"function": {}}, {"function": 3}, {"name": ""}):
        with pytest.raises(InvalidArgumentError, match="has no name"):
            form.reader([wrong])
    with pytest.raises(InvalidArgumentError, match="must be a mapping"):
        form.reader([{"name": "x", "parameters": "y"}])
    call = {"function": {"name": "go", "arguments": "{"}}
    for arguments, message in (("{", "not valid JSON"), ("[1]", "must be a JSON object"), (3, "3")):
        call = {"function": {"name": "go", "arguments": arguments}}
        with pytest.raises(InvalidArgumentError, match=message):
            form.messages([{"role": "assistant", "tool_calls": [call]}])
    assert form.messages([{"role": "user", "tool_calls": [{"function": {"name": "go"}}]}]) == [
        {"role": "user", "tool_calls": [{"function": {"name": "go", "arguments": {}}}]}
    ]


@pytest.mark.parametrize("name", REAL)
def test_what_real_templates_write_may_be_written(name):
    sources = llama_cpp()
    if not sources:
        pytest.skip("MAGLIO_TEMPLATES names no folder")
    setting = Setting(sources[name], control=True)
    row, told = setting.form.row, ("get_weather", {"city": "Rome", "days": 3})
    call = {"id": "abcdefghi", "function": {"name": told[0], "arguments": told[1]}}
    messages = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
    ]
    messages = setting.form.messages(messages, DESCRIBED)
    tools = DESCRIBED if setting.form.describes_tools else None
    text = setting.template.render(messages, tools=tools, add_generation_prompt=False).text
    if name in LEAVES_CALLS_OUT:
        return
    first = "{" if row.bare else " to=" if row.style == "harmony" else row.triggers[0]
    last = ((row.closing + row.section[1]).split() or ["}"])[-1]
    text = text[text.rindex(first, 0, text.rindex(told[0])) : text.rindex(last) + len(last)]
    assert called(setting, text, tools=DESCRIBED)[1] == [told]
    for choice in ("auto", "required", "get_weather"):
        assert setting.accepts(setting.form.grammar(DESCRIBED, choice=choice), text), text


DESCRIBED = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "where"},
                    "days": {"type": "integer", "description": "how many"},
                },
                "required": ["city"],
            },
        },
    }
]
LEAVES_CALLS_OUT = ("LFM2-8B-A1B",)
