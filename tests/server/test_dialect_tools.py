"""Tools in other dialects, on a tiny model that is made to call them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.call_templates import TEMPLATES
from support.chat_model import chat_model
from support.http_server import Running, running

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

SCHEMA = {
    "type": "object",
    "properties": {"where": {"enum": ["here", "there"]}},
    "required": ["where"],
    "additionalProperties": False,
}
ASKED: list[dict[str, Any]] = [{"role": "user", "content": "Look."}]
CLAUDE: dict[str, Any] = {
    "model": "tiny",
    "max_tokens": 120,
    "messages": ASKED,
    "tools": [{"name": "look", "description": "Looks.", "input_schema": SCHEMA}],
    "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
    "extra_body": {"temperature": 0.0},
}
GPT: dict[str, Any] = {
    "model": "tiny",
    "max_output_tokens": 120,
    "temperature": 0.0,
    "input": ASKED,
    "tools": [{"type": "function", "name": "look", "parameters": SCHEMA, "strict": True}],
    "tool_choice": "required",
    "parallel_tool_calls": False,
}


@pytest.fixture(scope="module", params=["mistral", "fallback"])
def tooled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """A server on a model whose template writes calls in its own way, or not at all."""
    folder = tmp_path_factory.mktemp(request.param)
    template = TEMPLATES.get(request.param)
    model = chat_model(folder, n_ctx=1024, **({} if template is None else {"template": template}))
    with running(model) as started:
        yield started


@pytest.fixture
def claude(tooled: Running) -> Iterator[Any]:
    with anthropic.Anthropic(base_url=tooled.url, api_key="none", max_retries=0) as opened:
        yield opened


@pytest.fixture
def gpt(tooled: Running) -> Iterator[Any]:
    address = f"{tooled.url}/v1"
    with openai.OpenAI(base_url=address, api_key="none", max_retries=0) as opened:
        yield opened


def chat_call(server: Running) -> dict[str, Any]:
    """What the chat endpoint calls."""
    function = {"name": "look", "description": "Looks.", "parameters": SCHEMA}
    body = {
        "messages": ASKED,
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_tokens": 120,
        "temperature": 0,
    }
    with server.client() as client:
        choice = client.post("/v1/chat/completions", json=body).json()["choices"][0]
    arguments: dict[str, Any] = json.loads(
        choice["message"]["tool_calls"][0]["function"]["arguments"]
    )
    return arguments


def test_anthropics_client_gets_the_call_and_sends_back_its_result(
    claude: Any, tooled: Running
) -> None:
    message = claude.messages.create(**CLAUDE)
    [call] = message.content
    assert (call.type, call.name) == ("tool_use", "look")
    assert call.input == chat_call(tooled)
    assert message.stop_reason == "tool_use"
    with claude.messages.stream(**CLAUDE) as stream:
        assert stream.get_final_message().content[0].input == call.input
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "nothing"}
    messages = [
        *ASKED,
        {"role": "assistant", "content": message.content},
        {"role": "user", "content": [result]},
    ]
    again = claude.messages.create(**{**CLAUDE, "messages": messages})
    assert again.usage.input_tokens + again.usage.cache_read_input_tokens > (
        message.usage.input_tokens + message.usage.cache_read_input_tokens
    )


def test_openais_client_gets_the_call_and_sends_back_its_result(gpt: Any, tooled: Running) -> None:
    response = gpt.responses.create(**GPT)
    [call] = response.output
    assert (call.type, call.name) == ("function_call", "look")
    assert json.loads(call.arguments).keys() == {"where"}
    assert response.status == "completed"
    with gpt.responses.stream(**GPT) as stream:
        assert stream.get_final_response().output[0].arguments == call.arguments
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "nothing"}
    again = gpt.responses.create(**{**GPT, "input": [*ASKED, call, result]})
    assert again.usage.input_tokens > response.usage.input_tokens
