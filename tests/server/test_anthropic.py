"""``/v1/messages``: by Anthropic's own client, and by what Claude Code sends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import maglio
from maglio.server.dialects.anthropic.answer import Message
from maglio.server.dialects.anthropic.body import MessagesRequest
from maglio.server.dialects.anthropic.conversation import chat_request
from maglio.server.endpoint import document
from maglio.server.schema.wire import read
from maglio.server.task.delta import CallArguments, CallBegan, ContentText, Finished
from support.agent_bodies import claude_code
from support.http_server import Running, running
from support.scripted_task import CALL, USAGE, WHOLE, answer_with, scripts

anthropic = pytest.importorskip("anthropic")

ASKED: list[dict[str, Any]] = [{"role": "user", "content": "Say something."}]
GREEDY = {"model": "tiny", "max_tokens": 24, "temperature": 0.0, "messages": ASKED}

ASKING = {"model": "tiny", "max_tokens": 24, "messages": ASKED, "extra_body": {"temperature": 0.0}}
"""The same for the client, which has no temperature any more."""


@pytest.fixture(scope="module")
def claude(server: Running) -> Iterator[Any]:
    with client_of(server.url) as opened:
        yield opened


def client_of(url: str, **options: Any) -> Any:
    return anthropic.Anthropic(
        base_url=url, **{"api_key": "none", "max_retries": 0, "timeout": 60, **options}
    )


def said(client: Any, **fields: Any) -> Any:
    return client.messages.create(**{**ASKING, **fields})


def text_of(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def test_the_answer_is_that_of_the_chat_endpoint(claude: Any, client: httpx.Client) -> None:
    message = said(claude)
    chat = client.post("/v1/chat/completions", json=GREEDY).json()
    assert text_of(message) == chat["choices"][0]["message"]["content"]
    assert message.role == "assistant"
    assert message.model == "tiny"
    usage = message.usage
    assert usage.input_tokens + usage.cache_read_input_tokens == chat["usage"]["prompt_tokens"]
    assert usage.output_tokens == chat["usage"]["completion_tokens"] == 24
    assert message.stop_reason == "max_tokens"


def test_a_stream_adds_up_to_the_whole(claude: Any) -> None:
    whole = said(claude)
    with claude.messages.stream(**ASKING) as stream:
        kinds = [event.type for event in stream]
        streamed = stream.get_final_message()
    assert text_of(streamed) == text_of(whole) != ""
    assert len(streamed.content) == len(whole.content)
    assert streamed.stop_reason == whole.stop_reason
    assert streamed.usage.output_tokens == whole.usage.output_tokens
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"
    assert "content_block_delta" in kinds


def test_a_stop_sequence_ends_the_answer_and_is_named(claude: Any) -> None:
    text = text_of(said(claude))
    stop = text[4:6]
    stopped = said(claude, stop_sequences=["never said", stop])
    assert text_of(stopped) == text[: text.index(stop)]
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", stop)


def test_tokens_are_counted_as_the_answer_counts_them(claude: Any) -> None:
    counted = claude.messages.count_tokens(
        model="tiny", system="Be short.", messages=ASKED
    ).input_tokens
    usage = said(claude, system="Be short.").usage
    assert counted == usage.input_tokens + usage.cache_read_input_tokens


def test_what_was_read_before_is_reported(claude: Any) -> None:
    asked = {"messages": [{"role": "user", "content": "Once more, " * 12}]}
    said(claude, **asked)
    usage = said(claude, **asked).usage
    assert usage.cache_read_input_tokens > 100
    assert usage.input_tokens < usage.cache_read_input_tokens


@pytest.mark.parametrize("place", ["output_config", "output_format"])
def test_a_schema_is_kept_to(client: httpx.Client, place: str) -> None:
    schema = {
        "type": "object",
        "properties": {"ok": {"enum": ["yes", "no"]}},
        "required": ["ok"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "schema": schema}
    asked = {place: {"format": form} if place == "output_config" else form, "max_tokens": 60}
    answer = client.post("/v1/messages", json={**GREEDY, **asked}).json()
    assert json.loads(answer["content"][0]["text"])["ok"] in ("yes", "no")
    assert answer["stop_reason"] == "end_turn"


def test_an_answer_can_be_begun_for_the_assistant(claude: Any) -> None:
    begun = [*ASKED, {"role": "assistant", "content": "Once"}]
    counted = [
        claude.messages.count_tokens(model="tiny", messages=messages).input_tokens
        for messages in (ASKED, begun)
    ]
    assert 0 < counted[1] - counted[0] <= len("Once")


def test_thinking_and_calls_come_as_blocks(claude: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch)
    whole = said(claude)
    with claude.messages.stream(**ASKING) as stream:
        partial = [event.partial_json for event in stream if event.type == "input_json"]
        streamed = stream.get_final_message()
    for message in (whole, streamed):
        assert [block.type for block in message.content] == [
            "thinking",
            "text",
            "tool_use",
            "tool_use",
        ]
        thinking, text, first, second = message.content
        assert thinking.thinking == "I should look."
        assert thinking.signature
        assert text.text == "Let me see: é😀"
        assert (first.id, first.name, first.input) == ("call_1", "read", CALL)
        assert (second.name, second.input) == ("list", {})
        assert message.stop_reason == "tool_use"
        assert message.usage.input_tokens == 4
        assert message.usage.cache_read_input_tokens == 16
    assert json.loads("".join(partial[:-1])) == CALL


@given(scripts())
def test_events_are_well_formed_and_add_up(script: list[Any]) -> None:
    message = Message("msg_1", "tiny", prompt=20, cached=16)
    events = message.begin()
    for delta in script:
        events += message.push(delta)
    blocks: list[dict[str, Any]] = []
    is_open = False
    for event in events[2:-2]:
        kind = event["type"].removeprefix("content_block_")
        assert is_open == (kind != "start")
        if kind == "start":
            blocks.append({**event["content_block"], "json": ""})
            is_open = True
        elif kind == "delta":
            _add(blocks[-1], event["delta"])
        else:
            is_open = False
        assert event["index"] == len(blocks) - 1
    assert not is_open
    for block in blocks:
        arguments = block.pop("json")
        if block["type"] == "tool_use":
            block["input"] = json.loads(arguments)
    assert blocks == message.document["content"]
    assert [event["type"] for event in events[:2]] == ["message_start", "ping"]
    assert [event["type"] for event in events[-2:]] == ["message_delta", "message_stop"]
    assert events[-2]["delta"]["stop_reason"] == message.document["stop_reason"]


def _add(block: dict[str, Any], delta: dict[str, Any]) -> None:
    if delta["type"] == "input_json_delta":
        block["json"] += delta["partial_json"]
        return
    name = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
    block[name[delta["type"]]] += delta[name[delta["type"]]]


def test_a_call_that_was_cut_off_keeps_what_there_is() -> None:
    message = Message("msg_1", "tiny", prompt=1, cached=0)
    for delta in (*WHOLE[:8], Finished(0, "length", USAGE)):
        message.push(delta)
    assert message.document["content"][-1]["input"] == {"path": "a.py"}
    assert message.document["stop_reason"] == "max_tokens"


@pytest.mark.parametrize(
    "arguments",
    ['{"a": "\\ud800"}', '{"a": 1e999}', '{"a": ' + "1" * 5000 + "}", '{"a":' + "[" * 300],
)
def test_arguments_that_clients_could_not_read_are_given_as_text(arguments: str) -> None:
    message = Message("msg_1", "tiny", prompt=1, cached=0)
    message.push(CallBegan(0, 0, "call_1", "look"))
    message.push(CallArguments(0, 0, arguments))
    message.push(Finished(0, "tool_calls", USAGE))
    sent = bytes(document(message.document).body)
    assert json.loads(sent)["content"][-1]["input"] == {"INVALID_JSON": arguments}


def test_an_error_in_the_middle_of_a_stream_is_an_event(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_with(monkeypatch, [ContentText(0, "So "), maglio.MaglioError("the disk burns")])
    with server.client() as client:
        answer = client.post("/v1/messages", json={**GREEDY, "stream": True})
    last = answer.text.strip().split("\n\n")[-1].splitlines()
    assert last[0] == "event: error"
    told = json.loads(last[1].removeprefix("data: "))
    error = {"type": "api_error", "message": "the disk burns"}
    assert told == {"type": "error", "error": error}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": 1.5}, "temperature"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "images"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_use"}]}]}, "tool_use"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "input_schema"),
        ({"tools": [{"name": "f"}]}, "input_schema"),
        ({"tool_choice": {"type": "tool", "name": "f"}}, "not among tools"),
        ({"mcp_servers": [{"url": "x"}]}, "mcp_servers is not supported"),
        ({"max_token": 5}, "Did you mean max_tokens?"),
    ],
)
def test_faults_are_told_in_anthropics_form(
    client: httpx.Client, change: dict[str, Any], words: str
) -> None:
    answer = client.post("/v1/messages", json={**GREEDY, **change})
    assert answer.status_code == 400, answer.text
    told = answer.json()
    assert told["type"] == "error"
    assert told["error"]["type"] == "invalid_request_error"
    assert words in told["error"]["message"]


def test_the_clients_errors_are_its_own(claude: Any, server: Running) -> None:
    with pytest.raises(anthropic.NotFoundError, match="--alias"):
        said(claude, model="claude-opus-4-8")
    with pytest.raises(anthropic.BadRequestError, match="messages"):
        said(claude, messages=[])
    with pytest.raises(anthropic.BadRequestError, match="context"):
        said(claude, messages=[{"role": "user", "content": "w " * server.model.engine.n_ctx}])


def test_keys_come_in_either_header(tiny_chat: maglio.Model) -> None:
    from maglio.server.access.auth import Keys

    with running(tiny_chat, keys=Keys(["right-key"])) as server:
        with pytest.raises(anthropic.AuthenticationError) as caught:
            said(client_of(server.url, api_key="wrong"))
        assert caught.value.body["error"]["type"] == "authentication_error"
        for given_key in ({"api_key": "right-key"}, {"api_key": None, "auth_token": "right-key"}):
            with client_of(server.url, **given_key) as client:
                assert said(client).usage.output_tokens == 24


def test_what_claude_code_sends_is_understood() -> None:
    request = chat_request(read(MessagesRequest, claude_code("aaaaa")))
    messages = [message.model_dump(exclude_unset=True) for message in request.messages]
    call = {"name": "Read", "arguments": '{"path": "a.py"}'}
    assert messages == [
        {"role": "system", "content": "You are a coding agent.\nFollow the rules."},
        {"role": "user", "content": "<system-reminder>Today</system-reminder>\nRead a.py"},
        {
            "role": "assistant",
            "content": "Reading.",
            "reasoning_content": "A file.",
            "tool_calls": [{"id": "t1", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": "t1", "content": "x = 1"},
        {"role": "user", "content": "Go on.\nThe mode has changed."},
    ]
    assert request.reasoning_effort == "xhigh"
    assert request.max_tokens == 32000
    assert request.tools is not None
    assert request.tools[0].function.name == "Read"


def test_the_line_for_billing_does_not_reach_the_model() -> None:
    one, other = (chat_request(read(MessagesRequest, claude_code(b))) for b in ("aaaaa", "bbbbb"))
    assert one == other


@pytest.mark.parametrize(
    ("given_fields", "effort"),
    [
        ({}, None),
        ({"output_config": {"effort": "high"}}, "high"),
        ({"thinking": {"type": "disabled"}}, "none"),
        ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, "medium"),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, "low"),
    ],
)
def test_thinking_is_as_asked(given_fields: dict[str, Any], effort: str | None) -> None:
    request = chat_request(read(MessagesRequest, {**GREEDY, **given_fields}))
    assert request.reasoning_effort == effort


@pytest.mark.parametrize(
    ("choice", "mode", "name"),
    [
        ({"type": "auto"}, "auto", None),
        ({"type": "any", "disable_parallel_tool_use": True}, "required", None),
        ({"type": "tool", "name": "f"}, "required", "f"),
        ({"type": "none"}, "none", None),
    ],
)
def test_choices_of_tools(choice: dict[str, Any], mode: str, name: str | None) -> None:
    tools = [{"name": "f", "input_schema": {"type": "object"}}]
    request = chat_request(read(MessagesRequest, {**GREEDY, "tools": tools, "tool_choice": choice}))
    assert request.tool_choice is not None
    assert (request.tool_choice.mode, request.tool_choice.name) == (mode, name)
    assert request.parallel_tool_calls is not choice.get("disable_parallel_tool_use", False)


ROLES = st.sampled_from(("user", "assistant", "system"))


@given(st.lists(st.tuples(ROLES, st.text(alphabet="abc", min_size=1, max_size=3)), min_size=1))
def test_turns_alternate_and_no_text_is_lost(told: list[tuple[str, str]]) -> None:
    messages = [{"role": role, "content": text} for role, text in told]
    request = chat_request(read(MessagesRequest, {**GREEDY, "messages": messages}))
    roles = [message.role for message in request.messages]
    assert all(one != other for one, other in pairwise(roles))
    assert "system" not in roles[1:]
    said = "".join(message.content or "" for message in request.messages)
    assert said.replace("\n", "") == "".join(text for _, text in told)
    assert request.continue_final_message == (roles[-1] == "assistant")
