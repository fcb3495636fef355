"""What the readers tell, however the text is cut, whole or broken."""

from __future__ import annotations

import json
import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio.calls import (
    ROWS,
    AnswerReader,
    CallArguments,
    CallBegan,
    ContentText,
    ReasoningText,
    format_of,
    typed,
)
from maglio.calls.rows import THINKING
from maglio.text import ChatTemplate
from support.call_templates import ONE_CALL, TEMPLATES, tokenizer_of

PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "exact": {"type": "boolean"},
        "share": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "area": {"type": "object"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["city"],
}
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "look.up-2", "parameters": {"type": "object"}}},
    {"type": "function", "function": {"name": "go"}},
]
ROW = {row.name: row for row in ROWS}

# What no format's own tags are made of; strings in JSON may hold anything, see below.
SAFE = st.text("abz é漢🙂0.7,:-_=#\"'\\\n\t", max_size=12)
LEAVES = st.none() | st.booleans() | st.integers(-(10**6), 10**6) | SAFE
ARGUMENTS = st.fixed_dictionaries(
    {"city": SAFE},
    optional={
        "days": st.integers(-9, 99),
        "exact": st.booleans(),
        "share": st.floats(-1e6, 1e6).map(lambda x: round(x, 3)),
        "tags": st.lists(SAFE, max_size=3),
        "area": st.dictionaries(st.text("abé", min_size=1, max_size=3), LEAVES, max_size=3),
        "note": st.none() | st.just("a note"),
    },
)


@cache
def template_of(name, *, control=True):
    source = TEMPLATES[name]
    return ChatTemplate(source, tokenizer_of(source, control=control))


@cache
def form_of(name):
    return format_of(template_of(name))


def rendered(name, calls, content="", reasoning=None):
    """What the template makes of an answer: from the generation prompt to the end of the turn."""
    asked = {"role": "user", "content": "?"}
    made = [{"id": "abcdefghi", "function": {"name": n, "arguments": a}} for n, a in calls]
    answer = {"role": "assistant", "content": content, "tool_calls": made}
    if reasoning is not None:
        answer["reasoning_content"] = reasoning
    template = template_of(name)
    prompt = template.render([asked], tools=TOOLS).text
    text = template.render([asked, answer], tools=TOOLS, add_generation_prompt=False).text
    head = "<|start|>assistant" if name == "harmony" else "<|im_start|>assistant\n"
    text = text[prompt.rindex(head) + len(head) :]
    for end in ("<|im_end|>\n", "<|call|>", "<|end|>"):
        text = text.removesuffix(end)
    return text


def read(reader, pieces):
    deltas = [delta for piece in pieces for delta in reader.push(piece)]
    return deltas + reader.finish()


def summed(deltas):
    """Deltas put together: thinking, content, and calls as name and arguments."""
    thought, content, calls = "", "", {}
    for delta in deltas:
        if isinstance(delta, ReasoningText):
            thought += delta.text
        elif isinstance(delta, ContentText):
            content += delta.text
        elif isinstance(delta, CallBegan):
            assert delta.index == len(calls)
            calls[delta.index] = [delta.name, ""]
        else:
            assert isinstance(delta, CallArguments)
            assert delta.index == len(calls) - 1
            calls[delta.index][1] += delta.text
        assert getattr(delta, "text", "x")
    return thought, content, [tuple(call) for call in calls.values()]


def cut(text, rng):
    places = sorted(rng.choices(range(len(text) + 1), k=rng.randint(0, 12)))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


@settings(max_examples=150)
@given(
    name=st.sampled_from(sorted(TEMPLATES)),
    calls=st.lists(
        st.tuples(st.just("get_weather"), ARGUMENTS) | st.just(("look.up-2", {})),
        min_size=1,
        max_size=3,
    ),
    seed=st.integers(0, 2**32),
)
def test_calls_that_a_template_writes_are_read_back(name, calls, seed):
    form = form_of(name)
    calls = calls[:1] if name in ONE_CALL else calls
    text = rendered(name, calls)
    rng = random.Random(seed)
    for whole_calls in (False, True):
        reader = form.reader(TOOLS, whole_calls=whole_calls)
        thought, content, told = summed(read(reader, cut(text, rng)))
        assert [(n, json.loads(a)) for n, a in told] == calls
        assert (thought, content) == ("", "")
        assert not reader.failed


@settings(max_examples=100)
@given(
    name=st.sampled_from(sorted(set(TEMPLATES) - {"harmony", "llama3"})),
    content=st.sampled_from(["I look.", "a < b\n\n[x] {y} <tag>", "  indented"]),
    reasoning=st.sampled_from([None, "first\n\nsecond", "<tool_call>no</tool_call> [TOOL_CALLS]"]),
    seed=st.integers(0, 2**32),
)
def test_thoughts_and_text_come_before_calls(name, content, reasoning, seed):
    form = form_of(name)
    if form.thinking is None:
        reasoning = None
    calls = [("get_weather", {"city": "Rome"})]
    text = rendered(name, calls, content, reasoning)
    begun = reasoning is not None and seed % 2 == 1
    if begun:
        text = text.removeprefix(form.thinking.begin)
    reader = form.reader(TOOLS, reasoning=begun)
    thought, said, told = summed(read(reader, cut(text, random.Random(seed))))
    assert thought == (reasoning or "")
    assert said == (content.lstrip() if reasoning else content)
    assert [(n, json.loads(a)) for n, a in told] == calls


PIECES = sorted(
    {piece for row in ROWS for text in (*row.section, row.opening, row.closing, row.after_name,
     *row.tags, row.between, row.call_id) for piece in (text, text.strip()) if text}
    | {mark for thinking in THINKING for mark in (thinking.begin, thinking.end)}
    | {"get_weather", "look.up-2", "nothing", '{"name": "get_weather", "arguments": ', "{", "}",
       '{"city": "R"}', '"', "city", "city:", "city=", "3", "'", "\\", " ", "\n", "é", "<", "<|",
       '"name"', '"arguments"', ":", ",", "[", "]", ")", '<|"|>', "null", "to=functions.",
       "<|channel|>", "<|message|>", "<|start|>", "commentary", "analysis", "final", "<|end|>"}
)  # fmt: skip


@settings(max_examples=300)
@given(
    row=st.sampled_from(ROWS),
    thinking=st.none() | st.sampled_from(THINKING),
    pieces=st.lists(st.sampled_from(PIECES), max_size=14),
    seed=st.integers(0, 2**32),
)
def test_how_a_text_is_cut_changes_nothing(row, thinking, pieces, seed):
    text = "".join(pieces)
    rng = random.Random(seed)
    options = {"tools": TOOLS, "reasoning": thinking is not None and seed % 2 == 1}
    for whole_calls in (False, True):
        at_once = AnswerReader(row, thinking, **options, whole_calls=whole_calls)
        expected = summed(read(at_once, [text]))
        for pieces in (cut(text, rng), list(text)):
            reader = AnswerReader(row, thinking, **options, whole_calls=whole_calls)
            assert summed(read(reader, pieces)) == expected
            assert reader.failed == at_once.failed


@settings(max_examples=300)
@given(row=st.sampled_from(ROWS), pieces=st.lists(st.sampled_from(PIECES), max_size=14))
def test_what_is_no_call_is_text_to_the_last_character(row, pieces):
    text = "".join(pieces)
    if row.style == "harmony":
        text = text.replace("<|", "<")  # no messages, but an answer
    _, content, told = summed(read(AnswerReader(row, None, tools=TOOLS, whole_calls=True), [text]))
    for name, arguments in told:
        assert name in ("get_weather", "look.up-2", "go")
        assert isinstance(json.loads(arguments), dict)
    if not told:
        assert content == text


@settings(max_examples=120)
@given(
    name=st.sampled_from(sorted(set(TEMPLATES) - {"harmony"})),
    arguments=ARGUMENTS,
    kept=st.floats(0, 1),
    seed=st.integers(0, 2**32),
)
def test_a_call_that_is_cut_off_comes_out_as_its_text(name, arguments, kept, seed):
    text = rendered(name, [("get_weather", arguments)])
    text = text[: int(kept * len(text))]
    form = form_of(name)
    _, content, told = summed(read(form.reader(TOOLS, whole_calls=True), [text]))
    if told:  # nothing is missing but what closes it
        assert [(n, json.loads(a)) for n, a in told] == [("get_weather", arguments)]
    else:
        assert content == text
    reader = form.reader(TOOLS)
    _, content, streamed = summed(read(reader, cut(text, random.Random(seed))))
    if not told:
        assert content == text
        assert reader.failed == set(range(len(streamed)))
        for _, arguments_so_far in streamed:
            with pytest.raises(ValueError, match=r"Expecting|Unterminated|Extra|Invalid"):
                json.loads(arguments_so_far)


def test_arguments_come_as_they_are_written():
    reader = form_of("hermes").reader(TOOLS)
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Ro'
    deltas = reader.push(text)
    assert deltas == [CallBegan(0, "get_weather"), CallArguments(0, '{"city": "Ro')]
    assert reader.push("me") == [CallArguments(0, "me")]
    coder = form_of("qwen3-coder").reader(TOOLS)
    text = "<tool_call>\n<function=get_weather>\n<parameter=city>\nRo"
    assert summed(coder.push(text))[2] == [("get_weather", '{"city": "Ro')]
    assert coder.push('"m\n') == [CallArguments(0, '\\"m')]


BARE = "<tool_call>\n<function=get_weather>\n<parameter={}>\n{}\n</parameter>\n</function>"


@pytest.mark.parametrize(
    ("argument", "text", "value"),
    [
        ("city", "3", "3"),
        ("city", "null", "null"),
        ("city", '"Rome"', '"Rome"'),
        ("city", "two\n\nlines\n", "two\n\nlines\n"),
        ("days", "3", 3),
        ("days", "three", "three"),
        ("exact", "True", True),
        ("exact", "false", False),
        ("share", "-1.5e3", -1500.0),
        ("share", "NaN", "NaN"),
        ("tags", '["a", "b"]', ["a", "b"]),
        ("tags", "['a', \"it's\"]", ["a", "it's"]),
        ("area", "{'a': [1, None, True]}", {"a": [1, None, True]}),
        ("note", "null", None),
        ("note", "None", None),
        ("note", "12", "12"),
        ("other", "12", 12),
        ("other", "twelve", "twelve"),
    ],
)  # fmt: skip
def test_what_is_written_without_quotes_has_the_type_of_the_schema(argument, text, value):
    reader = AnswerReader(ROW["qwen3-coder"], None, tools=TOOLS)
    _, _, told = summed(read(reader, [BARE.format(argument, text)]))
    assert [json.loads(arguments) for _, arguments in told] == [{argument: value}]


@pytest.mark.parametrize("width", [1, 2, 50])
def test_a_schema_that_leads_back_to_itself_is_looked_at_once(monkeypatch, width):
    looked = []
    target = typed._target
    monkeypatch.setattr(typed, "_target", lambda *given: looked.append(1) or target(*given))
    tree = {"anyOf": [{"$ref": "#/$defs/tree"}, *[{"oneOf": [{"$ref": "#/$defs/tree"}]}] * width]}
    parameters = {"properties": {"x": tree}, "$defs": {"tree": tree}}
    assert typed.types_of(tree, parameters) == typed.ALL_TYPES
    assert len(looked) <= width + 1


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"$ref": "#/$defs/word"}, "12", "12"),
        ({"$ref": "#/$defs/none"}, "12", 12),
        ({"$ref": "#/$defs/loop"}, "12", 12),
        ({"enum": ["1", "2"]}, "1", "1"),
        ({"enum": [1, 2]}, "1", 1),
        ({"const": "1"}, "1", "1"),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "1", 1),
        ({"type": ["string", "boolean"]}, "1", "1"),
        ({"type": "unheard of"}, "1", 1),
        (True, "1", 1),
    ],
)
def test_the_type_is_found_wherever_the_schema_has_it(schema, text, value):
    defs = {"word": {"type": "string"}, "loop": {"$ref": "#/$defs/loop"}}
    parameters = {"properties": {"x": schema}, "$defs": defs}
    tools = [{"function": {"name": "get_weather", "parameters": parameters}}]
    reader = AnswerReader(ROW["qwen3-coder"], None, tools=tools)
    _, _, told = summed(read(reader, [BARE.format("x", text)]))
    assert json.loads(told[0][1]) == {"x": value}


CITY = '{"city": "R"}'


@pytest.mark.parametrize(
    ("row", "text", "expected"),
    [
        ("hermes", '<tool_call>{"arguments":{"city":"R"},"name":"go"}</tool_call>', 1),
        ("hermes", '<tool_call>{"name":"go","arguments":"{\\"city\\": \\"R\\"}"}', 1),
        ("hermes", '<tool_call>{"name": "go"}</tool_call>', 1),
        ("hermes", '<tool_call>{"id": [1, {"a": "}"}], "name": "go", "arguments": null}', 1),
        ("hermes", '<tool_call>{"name": "go", "parameters": {"city": "R"}}</tool_call>', 1),
        ("hermes", '<tool_call>{"name": "other", "arguments": {}}</tool_call>', 0),
        ("hermes", '<tool_call>{"name": "go", "arguments": [1]}</tool_call>', 0),
        ("hermes", '<tool_call>{"name": "go", "arguments": {"a": NaN}}</tool_call>', 0),
        ("hermes", '<tool_call>{"name": "go", "arguments": {"a": 1,}}</tool_call>', 0),
        ("hermes", "<tool_call>" * 3 + '{"name": "go", "arguments": {}}</tool_call>', 1),
        ("mistral", '[TOOL_CALLS][{"name": "go", "arguments": {}, "id": "abcdefghi"}]', 1),
        ("mistral-v3", '[TOOL_CALLS][{"name": "go", "arguments": {}}]', 1),
        ("llama3", '<|python_tag|>{"name": "go", "parameters": {"city": "R"}}', 1),
        ("llama3", '<|python_tag|>print("x")', 0),
        ("llama3", '{"name": "Ada", "age": 3}', 0),
        ("llama3", 'So: {"name": "go", "parameters": {}}', 0),
        ("lfm2", "<|tool_call_start|>[go(city='R', tags=[\"a\", 'b',],)]", 0),
        ("lfm2", "<|tool_call_start|>[go(city=\"R\\u00e9\\x41\\n\")]<|tool_call_end|>", 1),
        ("glm", "<tool_call>go<arg_key>city</arg_key><arg_value>R</arg_value></tool_call>", 1),
        ("glm", "<tool_call>go</tool_call>", 1),
        ("gemma4", '<|tool_call>call:go{city:<|"|>a{b}:,<|"|>,tags:[]}<tool_call|>', 1),
        ("gemma4", "<|tool_call>call:go{area:" + "{a:" * 99 + "1" + "}" * 100, 0),
    ],
)  # fmt: skip
def test_models_write_a_little_differently_from_templates(row, text, expected):
    reader = AnswerReader(ROW[row], None, tools=TOOLS, whole_calls=True)
    _, content, told = summed(read(reader, [text]))
    assert len(told) == expected
    assert all(isinstance(json.loads(arguments), dict) for _, arguments in told)
    if not told:
        assert content == text


def test_channels_are_told_apart():
    text = (
        "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>commentary"
        "<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather "
        '<|constrain|>json<|message|>{"city": "R"}<|call|>'
    )
    for pieces in ([text], list(text)):
        told = summed(read(form_of("harmony").reader(TOOLS), pieces))
        assert told == ("Think.", "I look.", [("get_weather", CITY)])
    text = "<|channel|>analysis<|message|>T<|end|><|start|>assistant<|channel|>final<|message|>Yes"
    assert summed(read(form_of("harmony").reader(), [text])) == ("T", "Yes", [])
    broken = "<|channel|>commentary to=functions.other <|message|>{}"
    assert summed(read(form_of("harmony").reader(TOOLS), list(broken))) == ("", broken, [])
    assert summed(read(form_of("harmony").reader(TOOLS), ["plain"])) == ("", "plain", [])


def test_without_tools_no_call_is_read():
    text = rendered("hermes", [("get_weather", {"city": "R"})])
    assert summed(read(form_of("hermes").reader(), [text])) == ("", text, [])


def test_a_thought_that_does_not_end_is_a_thought():
    reader = form_of("hermes").reader(TOOLS, reasoning=True)
    assert summed(read(reader, ["\nso ", "far </thi"])) == ("so far </thi", "", [])
