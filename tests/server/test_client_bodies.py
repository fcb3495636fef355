"""The bodies that known clients send, as read from their sources: each is understood.

The clients themselves run in test_openai_client.py and test_other_clients.py, where they can be
installed.
"""

from __future__ import annotations

import json

import pytest

TOOL = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Read a file",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
        },
    },
}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "read_file", "arguments": '{"path": "a.txt"}'},
}

OPEN_WEBUI = {
    "model": "tiny",
    "stream": True,
    "stream_options": {"include_usage": True},
    "messages": [
        {"role": "system", "content": "You are helpful."},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": [{"type": "text", "text": "and now?"}]},
    ],
    "temperature": 0.8,
    "top_p": 0.9,
    "max_tokens": 6,
    "frequency_penalty": 0.1,
    "presence_penalty": 0.0,
    "seed": 42,
    "stop": ["\n\n\n"],
    "logit_bias": {"72": 5, "73": -100},
    "reasoning_effort": "low",
}
OPEN_WEBUI_TITLE = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "### Task: generate a title"}],
    "stream": False,
    "max_completion_tokens": 6,
}
AIDER = {
    "model": "tiny",
    "messages": [
        {"role": "system", "content": "Act as an expert software developer."},
        {"role": "user", "content": "change the greeting"},
        {"role": "assistant", "content": "Ok."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "a.py", "cache_control": {"type": "ephemeral"}}],
        },
    ],
    "temperature": 0,
    "stream": True,
    "max_tokens": 6,
}
CLINE = {
    "model": "gpt-5-local",
    "messages": [
        {"role": "developer", "content": "You are Cline."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "<task>read it</task>"},
                {"type": "text", "text": "<environment_details/>"},
            ],
        },
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "a file"},
    ],
    "max_tokens": 6,
    "reasoning_effort": "medium",
    "stream": True,
    "stream_options": {"include_usage": True},
    "tools": [TOOL],
}
ZED = {
    "model": "tiny",
    "messages": [
        {"role": "system", "content": "You are in an editor."},
        {"role": "user", "content": "read it"},
        {
            "role": "assistant",
            "content": [],
            "tool_calls": [CALL],
            "reasoning_content": "The user wants the file.",
        },
        {"role": "tool", "content": "a file", "tool_call_id": "call_1"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
        },
    ],
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_completion_tokens": 6,
    "stop": ["<stop>"],
    "temperature": 1.0,
    "tool_choice": "auto",
    "parallel_tool_calls": False,
    "tools": [TOOL],
    "prompt_cache_key": "thread-1",
    "reasoning_effort": "high",
}
ZED_NAMED_TOOL = ZED | {"tool_choice": TOOL, "stop": []}
CONTINUE_CHAT = {
    "messages": [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": " ", "tool_calls": [CALL]},
        {"role": "tool", "content": "a file", "tool_call_id": "call_1"},
    ],
    "model": "tiny",
    "max_tokens": 6,
    "temperature": 0.5,
    "top_p": None,
    "frequency_penalty": None,
    "stream": True,
    "stop": None,
    "tools": [TOOL | {"function": TOOL["function"] | {"strict": None}}],
}
CONTINUE_APPLY = {
    "messages": [{"role": "user", "content": "apply the change"}],
    "model": "gpt-4o",
    "max_tokens": 6,
    "stream": True,
    "prediction": {"type": "content", "content": "def greet():\n    print('hello')\n"},
}
CONTINUE_AUTOCOMPLETE = {
    "prompt": "<|fim_prefix|>def f(<|fim_suffix|>)<|fim_middle|>",
    "model": "tiny",
    "max_tokens": 6,
    "temperature": 0.01,
    "stream": True,
    "stop": ["<|fim_prefix|>", "/src/", "```"],
}
LANGCHAIN = {
    "messages": [{"role": "user", "content": "hello"}],
    "model": "tiny",
    "n": 2,
    "seed": 3,
    "logprobs": True,
    "top_logprobs": 2,
    "max_completion_tokens": 6,
    "stream": False,
}
RESENT = {
    "model": "tiny",
    "max_tokens": 6,
    "messages": [
        {"role": "user", "content": "hello"},
        {  # an answer as clients have got it, sent back whole
            "role": "assistant",
            "content": "hi",
            "refusal": None,
            "annotations": [],
            "audio": None,
            "function_call": None,
            "tool_calls": None,
            "reasoning_content": "A greeting.",
        },
        {"role": "user", "content": "again"},
    ],
}

CHATS = {
    "open-webui": OPEN_WEBUI,
    "open-webui's titles": OPEN_WEBUI_TITLE,
    "aider": AIDER,
    "cline": CLINE,
    "zed": ZED,
    "zed with a named tool": ZED_NAMED_TOOL,
    "continue": CONTINUE_CHAT,
    "continue's edits": CONTINUE_APPLY,
    "langchain": LANGCHAIN,
    "an answer sent back": RESENT,
}


@pytest.mark.parametrize("body", CHATS.values(), ids=CHATS)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/chat/completions"])
def test_a_client_is_answered(client, body, path):
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    if body.get("stream"):
        check_stream(answer.text, usage="stream_options" in body)
    else:
        assert len(answer.json()["choices"]) == body.get("n", 1)


def test_autocompletion_is_answered(client):
    answer = client.post("/v1/completions", json=CONTINUE_AUTOCOMPLETE)
    assert answer.status_code == 200
    check_stream(answer.text, usage=False)


def check_stream(text: str, *, usage: bool) -> None:
    *events, done, rest = text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    reasons = [c["choices"][0]["finish_reason"] for c in chunks if c["choices"]]
    assert reasons[-1] in ("stop", "length", "tool_calls")
    assert (chunks[-1].get("usage") is not None) == usage
