"""Bodies that are small to send: refusing one costs no more than reading it."""

from __future__ import annotations

import difflib

import pytest
from pydantic import ValidationError

from maglio.server.dialects.anthropic.body import MessagesRequest
from maglio.server.dialects.responses.body import ResponsesRequest
from maglio.server.errors import ApiError
from maglio.server.schema.chat import ChatRequest
from maglio.server.schema.tokens import DetokenizeRequest
from maglio.server.schema.wire import read
from maglio.server.settings import Settings

MANY = 1000
HELLO = {"role": "user", "content": "hello"}
USE = {"type": "tool_use", "id": "a", "name": "f", "input": {}}


def anthropic(**fields):
    return {"model": "m", "max_tokens": 1, "messages": [HELLO]} | fields


def content(*blocks):
    return anthropic(messages=[{"role": "user", "content": list(blocks)}])


def refusal(kind, document) -> ApiError:
    with pytest.raises(ApiError) as caught:
        read(kind, document)
    return caught.value


@pytest.mark.parametrize(
    ("kind", "document", "param"),
    [
        (ChatRequest, {"messages": [1] * MANY}, "messages[0]"),
        (
            ChatRequest,
            {"messages": [{"role": "assistant", "tool_calls": [1] * MANY}]},
            "messages[0].tool_calls[0]",
        ),
        (
            ChatRequest,
            {"messages": [HELLO], "speculative": {f"a{i}": 1 for i in range(MANY)}},
            "speculative.a0",
        ),
        (DetokenizeRequest, {"tokens": [-1] * MANY}, "tokens[0]"),
        (MessagesRequest, anthropic(messages=[1] * MANY), "messages[0]"),
        (MessagesRequest, anthropic(system=[1] * MANY), "system[0]"),
        (MessagesRequest, content(*[1] * MANY), "messages[0].content[0]"),
        (
            MessagesRequest,
            content({"type": "tool_result", "tool_use_id": "a", "content": [1] * MANY}),
            "messages[0].content[0].tool_result.content[0]",
        ),
        (
            MessagesRequest,
            content({"type": "search_result", "title": "x", "content": [1] * MANY}),
            "messages[0].content[0].search_result.content[0]",
        ),
        (
            MessagesRequest,
            content({"type": "mid_conv_system", "content": [1] * MANY}),
            "messages[0].content[0].mid_conv_system.content[0]",
        ),
        (ResponsesRequest, {"input": [1] * MANY}, "input[0]"),
        (ResponsesRequest, {"include": [1] * MANY}, "include[0]"),
        (
            ResponsesRequest,
            {"input": [{"type": "reasoning", "content": [1] * MANY}]},
            "input[0].reasoning.content[0]",
        ),
        (
            ResponsesRequest,
            {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function"}] * MANY}]},
            "tools[0].namespace.tools[0].name",
        ),
    ],
)
def test_of_many_faults_few_are_looked_for(kind, document, param):
    error = refusal(kind, document)
    assert error.param == param
    faults = error.__context__
    assert isinstance(faults, ValidationError)
    assert faults.error_count() < 10


def test_a_long_name_is_compared_with_none(monkeypatch):
    compared = []
    found = difflib.get_close_matches

    def close(word, *others):
        compared.append(word)
        return found(word, *others)

    monkeypatch.setattr(difflib, "get_close_matches", close)
    error = refusal(ChatRequest, {"messages": [HELLO], "x" * 100_000: 1})
    assert error.code == "unknown_parameter"
    assert len(error.message) < 1000
    assert max(map(len, compared), default=0) <= 100


def test_a_long_name_within_the_body_is_not_repeated():
    name = "x" * 100_000
    error = refusal(ChatRequest, {"messages": [HELLO], "speculative": {name: 1}})
    assert error.code == "unknown_parameter"
    assert len(error.message) < 1000
    assert error.param is not None
    assert len(error.param) < 1000


def test_a_long_name_of_the_model_is_not_repeated_in_each_event():
    """An answer repeats the name it was asked by, in every event of a stream."""
    settings = Settings(names=("tiny", "gpt-*"))
    assert settings.name_of("gpt-4o") == "gpt-4o"
    with pytest.raises(ApiError) as caught:
        settings.name_of("gpt-" + "x" * 100_000)
    assert (caught.value.status, caught.value.code) == (404, "model_not_found")
    assert len(caught.value.message) < 1000
