"""``/v1/responses``: by OpenAI's own client, and by what Codex sends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import maglio
from maglio.server.dialects.responses.answer import ResponseWriter
from maglio.server.dialects.responses.body import ResponsesRequest
from maglio.server.dialects.responses.conversation import chat_request
from maglio.server.dialects.responses.reasoning import packed, unpacked
from maglio.server.schema.wire import read
from maglio.server.task.delta import ContentText, Finished
from support.agent_bodies import CODEX
from support.http_server import Running
from support.scripted_task import ARGUMENTS, USAGE, WHOLE, answer_with, scripts

openai = pytest.importorskip("openai")

GREEDY: dict[str, Any] = {
    "model": "tiny",
    "input": "Say something.",
    "max_output_tokens": 24,
    "temperature": 0.0,
}


@pytest.fixture(scope="module")
def gpt(server: Running) -> Iterator[Any]:
    options = {"api_key": "none", "max_retries": 0, "timeout": 60}
    with openai.OpenAI(base_url=f"{server.url}/v1", **options) as opened:
        yield opened


def test_the_answer_is_that_of_the_chat_endpoint(gpt: Any, client: httpx.Client) -> None:
    response = gpt.responses.create(**GREEDY)
    chat = client.post(
        "/v1/chat/completions",
        json={
            "max_tokens": 24,
            "temperature": 0.0,
            "messages": [{"role": "user", "content": GREEDY["input"]}],
        },
    ).json()
    assert response.output_text == chat["choices"][0]["message"]["content"]
    assert response.status == "incomplete"
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.usage.input_tokens == chat["usage"]["prompt_tokens"]
    assert response.usage.output_tokens == 24
    assert response.usage.total_tokens == response.usage.input_tokens + 24


def test_a_stream_adds_up_to_the_whole(gpt: Any) -> None:
    whole = gpt.responses.create(**GREEDY)
    text, kinds, numbers, done = "", [], [], []
    for event in gpt.responses.create(**GREEDY, stream=True):
        kinds.append(event.type)
        numbers.append(event.sequence_number)
        if event.type == "response.output_text.delta":
            text += event.delta
        if event.type == "response.output_item.done":
            done.append(event.item)
        last = event
    assert text == whole.output_text == last.response.output_text
    assert numbers == list(range(len(numbers)))
    assert [item.status for item in done] == ["incomplete"]
    assert done == last.response.output
    assert list(dict.fromkeys(kinds)) == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.incomplete",
    ]


def test_the_clients_own_accumulation_agrees(gpt: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = answer_with(monkeypatch)
    with gpt.responses.stream(model="tiny", input="Read a.py", tools=[TOOL]) as stream:
        deltas = [e.delta for e in stream if e.type == "response.function_call_arguments.delta"]
        response = stream.get_final_response()
    thinking, said, first, second = response.output
    assert thinking.content[0].text == "I should look."
    assert unpacked(thinking.encrypted_content) == "I should look."
    assert said.content[0].text == "Let me see: é😀"
    assert (first.call_id, first.name, first.arguments) == ("call_1", "read", "".join(ARGUMENTS))
    assert (second.name, second.arguments) == ("list", "{}")
    assert deltas == [*ARGUMENTS, "{}"]
    assert response.status == "completed"
    assert response.usage.input_tokens_details.cached_tokens == 16
    assert response.usage.output_tokens_details.reasoning_tokens == 2
    assert requests[0].tools[0].function.name == "read"


TOOL = {
    "type": "function",
    "name": "read",
    "description": "Reads a file.",
    "strict": False,
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
}


def test_a_schema_is_kept_to(gpt: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "name": "verdict", "schema": schema, "strict": True}
    asked = {**GREEDY, "max_output_tokens": 100}
    response = gpt.responses.create(**asked, text={"format": form, "verbosity": "low"})
    assert json.loads(response.output_text).keys() == {"ok"}
    assert response.status == "completed"


def test_log_probabilities_come_if_they_are_asked_for(gpt: Any) -> None:
    wanted = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    part = gpt.responses.create(**GREEDY, **wanted).output[0].content[0]
    assert len(part.logprobs) == 24
    assert all(one.logprob == one.top_logprobs[0].logprob for one in part.logprobs)
    assert gpt.responses.create(**GREEDY).output[0].content[0].logprobs == []


@pytest.mark.parametrize("nothing", [{"input": ""}, {"input": []}, {}])
def test_a_probe_without_input_is_answered(client: httpx.Client, nothing: dict[str, Any]) -> None:
    body = {"model": "tiny", "max_output_tokens": 1, **nothing}
    answer = client.post("/v1/responses", json=body)
    assert answer.status_code == 200
    assert answer.json()["usage"]["output_tokens"] == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"previous_response_id": "resp_1"}, "nothing is stored here; send the whole"),
        ({"conversation": "conv_1"}, "nothing is stored here"),
        ({"background": True}, "background"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "item_reference"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "images"),
        ({"input": 7}, "must be a text or a list of items"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "name": "write"}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "web_search"}}, "tool_choice"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "schema"),
        ({"maximum": 1}, "Unrecognized request argument"),
    ],
)
def test_faults_are_told(client: httpx.Client, change: dict[str, Any], words: str) -> None:
    answer = client.post("/v1/responses", json={**GREEDY, **change})
    assert answer.status_code == 400, answer.text
    assert words in answer.json()["error"]["message"]


def test_responses_of_before_are_not_there(gpt: Any) -> None:
    with pytest.raises(openai.NotFoundError, match="not stored"):
        gpt.responses.retrieve("resp_1")


def test_a_failure_in_the_middle_is_the_last_event(
    gpt: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_with(monkeypatch, [ContentText(0, "So "), maglio.MaglioError("the disk burns")])
    events = list(gpt.responses.create(**GREEDY, stream=True))
    assert events[-1].type == "response.failed"
    assert events[-1].response.error.message == "the disk burns"
    assert events[-1].response.status == "failed"


@given(scripts())
def test_events_are_well_formed_and_add_up(script: list[Any]) -> None:
    writer = ResponseWriter({"model": "tiny"}, {}, tokenizer=None)  # type: ignore[arg-type]
    events = writer.begin()
    for delta in script:
        events += writer.push(delta)
    items: list[dict[str, Any]] = []
    finished = 0
    texts: dict[int, str] = {}
    for event in events[2:-1]:
        kind, index = event["type"], event["output_index"]
        if kind == "response.output_item.added":
            items.append(event["item"])
            assert finished == index
        elif kind == "response.output_item.done":
            finished += 1
            assert event["item"]["id"] == items[index]["id"]
            items[index] = event["item"]
        elif kind.endswith(".delta"):
            texts[index] = texts.get(index, "") + event["delta"]
        assert index == len(items) - 1
        assert event.get("item_id", items[-1]["id"]) == items[-1]["id"]
    assert finished == len(items)
    final = events[-1]["response"]["output"]
    for index, item in enumerate(final):
        assert item == items[index]
        said = item["arguments"] if "arguments" in item else item["content"][0]["text"]
        assert texts[index] == said
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


def test_an_answer_that_was_cut_off_is_incomplete() -> None:
    writer = ResponseWriter({}, {}, tokenizer=None)  # type: ignore[arg-type]
    for delta in (*WHOLE[:8], Finished(0, "length", USAGE)):
        writer.push(delta)
    document = writer.document
    assert document["status"] == "incomplete"
    assert [item["status"] for item in document["output"]] == ["completed"] * 2 + ["incomplete"]


def test_what_codex_sends_is_understood() -> None:
    request = chat_request(read(ResponsesRequest, CODEX))
    messages = [message.model_dump(exclude_unset=True) for message in request.messages]
    calls = [
        {"id": "c1", "name": "files.read", "arguments": '{"path": "a.py"}'},
        {"id": "c2", "name": "patch", "arguments": '{"input": "*** Begin"}'},
    ]
    assert messages == [
        {"role": "system", "content": "You are a coding agent.\n\nThe sandbox is read-only."},
        {"role": "user", "content": "<environment_context/>\nRead a.py"},
        {
            "role": "assistant",
            "content": "Reading.",
            "reasoning_content": "A file.",
            "tool_calls": [
                {"id": call.pop("id"), "type": "function", "function": call} for call in calls
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "x = 1"},
        {"role": "tool", "tool_call_id": "c2", "content": "done"},
        {"role": "user", "content": "Go on."},
    ]
    assert request.tools is not None
    assert [tool.function.name for tool in request.tools] == ["shell", "files.read"]
    assert request.reasoning_effort == "medium"
    assert not request.parallel_tool_calls


def test_a_call_into_a_namespace_is_told_with_it(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from maglio.server.task.delta import CallArguments, CallBegan

    calls = (CallBegan(0, 0, "c", "files.read"), CallArguments(0, 0, "{}"))
    answer_with(monkeypatch, [*calls, Finished(0, "tool_calls", USAGE)])
    answer = client.post("/v1/responses", json={**CODEX, "stream": False}).json()
    call = answer["output"][0]
    assert (call["namespace"], call["name"], call["arguments"]) == ("files", "read", "{}")


@given(st.text())
def test_thinking_comes_back_as_it_went(text: str) -> None:
    assert unpacked(packed(text)) == text


@given(st.text(max_size=20))
def test_what_another_server_packed_is_no_thinking(text: str) -> None:
    assert unpacked(text) == ""
    assert unpacked(f"maglio:{text}!") == ""
