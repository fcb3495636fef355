"""Tools and thoughts over HTTP: calls that must come, come; nothing that was said is lost."""

from __future__ import annotations

import json

import pytest

from maglio.calls import CallArguments, format_of
from maglio.decode import SamplingParams
from maglio.request import Request
from support.call_templates import TEMPLATES
from support.chat_model import chat_model
from support.http_server import running

openai = pytest.importorskip("openai", reason="openai is not installed")

CHAT = "/v1/chat/completions"
HELLO = [{"role": "user", "content": "hello"}]


def tool(name: str, **properties):
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {
        "type": "function",
        "function": {"name": name, "description": f"does {name}", "parameters": parameters},
    }


LOOK = tool("look", where={"enum": ["here", "there"]})
COUNT = tool("count", n={"enum": [1, 2, 3]})
BODY = {"messages": HELLO, "tools": [LOOK, COUNT], "max_tokens": 120, "temperature": 0}


@pytest.fixture(scope="module", params=["mistral", "minimax-m2", "llama3", "fallback"])
def server(request, tmp_path_factory):
    """Servers on tiny models whose templates write calls in their ways, or not at all."""
    folder = tmp_path_factory.mktemp(request.param)
    template = TEMPLATES.get(request.param)
    model = chat_model(folder, n_ctx=1024, **({} if template is None else {"template": template}))
    with running(model) as started:
        yield started


def ask(server, status=200, **body):
    with server.client() as client:
        answer = client.post(CHAT, json=BODY | body)
    assert answer.status_code == status, answer.text
    return answer.json() if status != 200 else answer.json()["choices"][0]


def called(message) -> list[tuple[str, dict]]:
    functions = [call["function"] for call in message["tool_calls"]]
    return [(function["name"], json.loads(function["arguments"])) for function in functions]


def is_valid(call: tuple[str, dict]) -> bool:
    where = [("look", {"where": place}) for place in ("here", "there")]
    return call in [*where, *(("count", {"n": n}) for n in (1, 2, 3))]


def test_a_call_that_must_come_comes(server):
    choice = ask(server, tool_choice="required", parallel_tool_calls=False)
    [call] = called(choice["message"])
    assert is_valid(call)
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    assert choice["message"]["tool_calls"][0]["id"].startswith("call_")


@pytest.mark.parametrize("name", ["look", "count"])
def test_the_tool_that_is_named_is_called(server, name):
    choice = ask(server, tool_choice={"type": "function", "function": {"name": name}})
    calls = called(choice["message"])
    assert calls
    assert all(is_valid(call) and call[0] == name for call in calls)


def test_a_stream_of_calls_accumulates_to_the_same(server):
    options = {"tool_choice": "required", "parallel_tool_calls": False}
    whole = called(ask(server, **options)["message"])
    with server.client() as client:
        text = client.post(CHAT, json=BODY | options | {"stream": True}).text
    chunks = [json.loads(e.removeprefix("data: ")) for e in text.split("\n\n")[:-2]]
    choices = [chunk["choices"][0] for chunk in chunks]
    parts = [call for c in choices for call in c["delta"].get("tool_calls", [])]
    assert parts[0].keys() == {"index", "id", "type", "function"}
    assert parts[0]["function"] == {"name": whole[0][0], "arguments": ""}
    assert all(part.keys() == {"index", "function"} for part in parts[1:])
    assert json.loads("".join(part["function"]["arguments"] for part in parts)) == whole[0][1]
    assert not any(choice["delta"].get("content") for choice in choices)
    assert choices[-1]["finish_reason"] == "tool_calls"


def test_a_call_is_what_the_library_generates_with_the_same_grammar(server):
    choice = ask(server, tool_choice="required", seed=3, temperature=1)
    model = server.model
    form = format_of(model.chat_template)
    messages = form.messages(HELLO, BODY["tools"])
    tools = BODY["tools"] if form.describes_tools else None
    prompt = model.chat_template.render(messages, tools=tools)
    reasoning = form.begins_thinking(prompt.text)
    request = Request(
        prompt=model.chat_template.encode(prompt),
        max_tokens=120,
        sampling=SamplingParams(temperature=1.0, seed=3),
        grammar=form.grammar(BODY["tools"], choice="required", reasoning=reasoning),
        show_control=True,
    )
    text = model.generate(request).text
    reader = form.reader(BODY["tools"], reasoning=reasoning, whole_calls=True)
    deltas = reader.push(text) + reader.finish()
    told = "".join(delta.text for delta in deltas if isinstance(delta, CallArguments))
    calls = choice["message"].get("tool_calls", [])
    assert "".join(call["function"]["arguments"] for call in calls) == told


def test_what_came_back_from_tools_can_be_sent_back(server):
    first = ask(server, tool_choice="required", parallel_tool_calls=False)["message"]
    result = {
        "role": "tool",
        "tool_call_id": first["tool_calls"][0]["id"],
        "content": [{"type": "text", "text": "nothing there"}],
    }
    choice = ask(server, messages=[*HELLO, first, result], max_tokens=5)
    assert choice["finish_reason"] in ("stop", "length", "tool_calls")


def test_with_tool_choice_none_the_model_is_told_of_no_tools(server):
    without = {key: value for key, value in BODY.items() if key != "tools"} | {"max_tokens": 9}
    with server.client() as client:
        plain = client.post(CHAT, json=without).json()
        none = client.post(CHAT, json=BODY | {"tool_choice": "none", "max_tokens": 9}).json()
    assert none["choices"] == plain["choices"]
    assert none["usage"]["prompt_tokens"] == plain["usage"]["prompt_tokens"]


def test_an_answer_calls_or_keeps_to_the_format(server):
    form = {"type": "json_schema", "json_schema": {"schema": {"enum": ["seven", "eight"]}}}
    [quote] = server.model.tokenizer.encode('"')
    for seed in range(4):
        # A quotation mark begins the answer, or comes only where nothing else can.
        said, call = (
            ask(
                server,
                response_format=form,
                parallel_tool_calls=False,
                logit_bias={str(quote): bias},
                temperature=1,
                seed=seed,
            )
            for bias in (100, -100)
        )
        assert json.loads(said["message"]["content"]) in ("seven", "eight")
        assert said["finish_reason"] == "stop"
        assert all(map(is_valid, called(call["message"])))
        assert call["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tool_choice": {"type": "function", "function": {"name": "fly"}}}, "tool_choice"),
        ({"tools": None, "tool_choice": "required"}, "tool_choice"),
        ({"grammar": 'root ::= "x"'}, "grammar"),
        ({"messages": [{"role": "assistant", "tool_calls": [
            {"type": "function", "function": {"name": "look", "arguments": "{"}}]}]}, None),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(server, fields, param):
    assert ask(server, 400, **fields)["error"]["param"] == param


def test_the_official_client_gets_calls(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        options = {
            "model": "tiny",
            "messages": HELLO,
            "tools": [LOOK, COUNT],
            "tool_choice": "required",
            "parallel_tool_calls": False,
            "max_tokens": 120,
            "temperature": 0,
        }
        [call] = client.chat.completions.create(**options).choices[0].message.tool_calls
        assert is_valid((call.function.name, json.loads(call.function.arguments)))
        with client.chat.completions.stream(**options) as stream:
            message = stream.get_final_completion().choices[0].message
        assert message.tool_calls[0].function.arguments == call.function.arguments


def test_thoughts_are_told_apart(tmp_path_factory):
    template = TEMPLATES["qwen3-coder"]  # its prompts begin a thought
    model = chat_model(tmp_path_factory.mktemp("thinking"), template=template, n_ctx=1024)
    body = {"messages": HELLO, "max_tokens": 30, "temperature": 0, "logprobs": True}
    prompt = model.chat_template.render(HELLO)
    assert prompt.text.endswith("<think>\n")
    said = model.generate(model.chat_template.encode(prompt), max_tokens=30).text
    with running(model) as server, server.client() as client:
        whole = client.post(CHAT, json=body).json()
        streamed = client.post(CHAT, json=body | {"stream": True}).text
    [choice] = whole["choices"]
    assert choice["message"]["reasoning_content"] == said.lstrip()
    assert choice["message"]["content"] == ""
    assert choice["logprobs"]["content"] == []
    details = whole["usage"]["completion_tokens_details"]
    assert details["reasoning_tokens"] == 30
    chunks = [json.loads(e.removeprefix("data: ")) for e in streamed.split("\n\n")[:-2]]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "".join(d.get("reasoning_content", "") for d in deltas) == said.lstrip()
