"""Bodies: what is refused, how it is told, and what is accepted without effect."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maglio.server.errors import ApiError
from maglio.server.schema.chat import ChatRequest
from maglio.server.schema.completion import CompletionRequest
from maglio.server.schema.generating import GeneratingBody
from maglio.server.schema.wire import read

HELLO = [{"role": "user", "content": "hello"}]


def chat(**fields):
    return read(ChatRequest, {"messages": HELLO} | fields)


def refusal(kind, document):
    with pytest.raises(ApiError) as caught:
        read(kind, document)
    error = caught.value
    assert error.status == 400
    assert error.document["error"]["type"] == "invalid_request_error"
    return error


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"temperature": 2.5}, "temperature", "invalid_value"),
        ({"temperature": "1"}, "temperature", "invalid_type"),
        ({"temperature": True}, "temperature", "invalid_type"),
        ({"temperature": math.nan}, "temperature", "invalid_value"),
        ({"top_p": 1.1}, "top_p", "invalid_value"),
        ({"n": 0}, "n", "invalid_value"),
        ({"n": 17}, "n", "invalid_value"),
        ({"max_tokens": -2}, "max_tokens", "invalid_value"),
        ({"max_tokens": 1.5}, "max_tokens", "invalid_type"),
        ({"presence_penalty": 3}, "presence_penalty", "invalid_value"),
        ({"seed": 2**64}, "seed", "invalid_value"),
        ({"stop": [""]}, "stop[0]", "invalid_value"),
        ({"stop": ["x"] * 17}, "stop", "invalid_value"),
        ({"stop": 3}, "stop", "invalid_type"),
        ({"logit_bias": {"x": 1}}, "logit_bias", "invalid_type"),
        ({"logit_bias": {"5": 101}}, "logit_bias", "invalid_value"),
        ({"logit_bias": {"5": True}}, "logit_bias", "invalid_type"),
        ({"top_logprobs": 2}, "top_logprobs", "invalid_value"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "invalid_value"),
        ({"stream": "yes"}, "stream", "invalid_type"),
        ({"stream_options": {"usage": True}}, "stream_options.usage", "unknown_parameter"),
        ({"messages": []}, "messages", "invalid_value"),
        ({"messages": "hello"}, "messages", "invalid_type"),
        ({"messages": [{"content": "x"}]}, "messages[0].role", "missing_required_parameter"),
        ({"messages": [{"role": "alien"}]}, "messages[0].role", "invalid_value"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content", "invalid_type"),
        ({"tools": [{"type": "custom"}]}, "tools[0].type", "invalid_value"),
        (
            {"tools": [{"type": "function", "function": {"name": "f g"}}]},
            "tools[0].function.name",
            "invalid_value",
        ),
        ({"tool_choice": "any"}, "tool_choice", "invalid_value"),
        ({"response_format": {"type": "json_schema"}}, "response_format", "invalid_value"),
        ({"response_format": {"type": "xml"}}, "response_format.type", "invalid_value"),
        ({"prediction": {"type": "text"}}, "prediction.type", "invalid_value"),
        ({"speculative": {"max_draft": 0}}, "speculative.max_draft", "invalid_value"),
        ({"speculative": {"depth": 3}}, "speculative.depth", "unknown_parameter"),
        ({"references": ["x"] * 17}, "references", "invalid_value"),
        ({"references": ["x" * (4 << 20), "y"]}, "references", "invalid_value"),
        ({"reasoning_effort": "extreme"}, "reasoning_effort", "invalid_value"),
        ({"functions": [{"name": "f"}]}, "functions", "unsupported_parameter"),
        ({"modalities": ["text", "audio"]}, "modalities", "unsupported_parameter"),
        ({"mirostat": 2}, "mirostat", "unsupported_parameter"),
        ({"max_token": 3}, "max_token", "unknown_parameter"),
        ({"frobnicate": None}, "frobnicate", "unknown_parameter"),
    ],
)
def test_a_wrong_field_is_named(fields, param, code):
    error = refusal(ChatRequest, {"messages": HELLO} | fields)
    assert (error.param, error.code) == (param, code)
    assert param.split("[")[0].split(".")[0] in error.message


def test_a_name_that_is_nearly_one_says_which():
    error = refusal(ChatRequest, {"messages": HELLO, "max_token": 3})
    assert error.message == (
        "Unrecognized request argument supplied: max_token. Did you mean max_tokens?"
    )


def test_what_is_said_of_a_list_is_said_of_what_was_sent():
    error = refusal(CompletionRequest, {"prompt": ["x"] * 65})
    assert error.message == (
        "Invalid value for 'prompt': Value should have at most 64 items, not 65; it is an array "
        "of 65."
    )


def test_pictures_are_refused_by_name():
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "look"}, picture]}]
    error = refusal(ChatRequest, {"messages": messages})
    assert error.param == "messages[0].content"
    assert "image_url: images, sound and files are not supported" in error.message


@pytest.mark.parametrize("name", sorted(GeneratingBody.without_effect))
def test_what_has_no_effect_here_is_accepted(name):
    for value in ("x", {"a": 1}, True, None):
        assert chat(**{name: value}) == chat()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (name, value)
        for kind in (ChatRequest, CompletionRequest)
        for name, (_, neutral) in kind.refused.items()
        for value in (*neutral, None)
    ],
)
def test_what_asks_for_nothing_is_accepted(name, value):
    kind = CompletionRequest if name == "suffix" else ChatRequest
    base = {"prompt": "x"} if name == "suffix" else {"messages": HELLO}
    assert read(kind, base | {name: value}) == read(kind, base)


@pytest.mark.parametrize("name", sorted(ChatRequest.model_fields.keys() - {"messages"}))
def test_null_is_the_same_as_nothing(name):
    assert chat(**{name: None}) == chat()


def test_parts_are_lines_of_one_text():
    parts = [
        {"type": "text", "text": "one"},
        {"type": "text", "text": "two", "cache_control": {"type": "ephemeral"}},
    ]
    assert chat(messages=[{"role": "user", "content": parts}]).messages[0].content == "one\ntwo"
    prediction = chat(prediction={"type": "content", "content": parts}).prediction
    assert prediction is not None
    assert prediction.content == "one\ntwo"


def test_what_only_the_template_reads_is_kept():
    messages = [{"role": "user", "content": "x", "thought": {"deep": True}, "name": "Ann"}]
    assert chat(messages=messages).messages[0].model_dump(exclude_unset=True) == messages[0]


def test_biases_come_as_an_object_or_as_pairs():
    assert chat(logit_bias={"5": -100, "7": 1.5}).logit_bias == [(5, -100.0), (7, 1.5)]
    assert chat(logit_bias=[[5, False], [7, 1.5]]).logit_bias == [(5, -math.inf), (7, 1.5)]


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("x", ["x"]),
        (["x", "y"], ["x", "y"]),
        ([1, 2], [[1, 2]]),
        ([[1], [2, 3]], [[1], [2, 3]]),
        (["x", [1]], ["x", [1]]),
    ],
)
def test_prompts_come_in_four_shapes(prompt, prompts):
    assert read(CompletionRequest, {"prompt": prompt}).prompt == prompts


@pytest.mark.parametrize("prompt", [[], [1, "x"], 3, {}, [[True]], [1.5]])
def test_other_prompts_are_refused(prompt):
    assert refusal(CompletionRequest, {"prompt": prompt}).param == "prompt"


@pytest.mark.parametrize("document", [[], "x", 3, None, True])
def test_a_body_is_an_object(document):
    assert refusal(ChatRequest, document).code == "invalid_type"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
NAMES = st.sampled_from([*ChatRequest.model_fields, *ChatRequest.refused, "nonsense"])


@given(st.dictionaries(NAMES, JSON, max_size=4))
def test_whatever_is_sent_is_understood_or_refused(fields):
    try:
        read(ChatRequest, {"messages": HELLO} | fields)
    except ApiError as refused:
        told = refused
    else:
        return
    assert told.status == 400
    assert len(told.message) < 1000
