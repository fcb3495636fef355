"""Bodies of all dialects with something wrong in them are understood, or refused."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from maglio.server.dialects.anthropic.body import MessagesRequest
from maglio.server.dialects.anthropic.conversation import chat_request as of_anthropic
from maglio.server.dialects.responses.body import ResponsesRequest
from maglio.server.dialects.responses.conversation import chat_request as of_responses
from maglio.server.errors import ApiError
from maglio.server.schema.chat import ChatRequest
from maglio.server.schema.llama import LlamaRequest
from maglio.server.schema.wire import Body, read
from support.agent_bodies import CODEX, claude_code

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
CHAT = {
    "model": "tiny",
    "messages": [
        {"role": "developer", "content": [{"type": "text", "text": "a"}]},
        {"role": "user", "content": "b"},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "c",
            "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "d"},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "response_format": {"type": "json_schema", "json_schema": {"name": "g", "schema": {}}},
    "prediction": {"type": "content", "content": [{"type": "text", "text": "e"}]},
    "speculative": {"max_draft": 4},
    "references": ["h"],
    "logit_bias": {"5": -100},
    "stop": ["i"],
    "stream_options": {"include_usage": True},
    "chat_template_kwargs": {"enable_thinking": False},
}
LLAMA = {"prompt": ["a", [1, 2]], "n_predict": 5, "samplers": ["top_k"], "logit_bias": [[5, False]]}


@st.composite
def damaged(draw: st.DrawFn, body: dict[str, Any]) -> Any:
    """The body with one of its values, at any depth, replaced, left out, or put elsewhere."""
    whole = copy.deepcopy(body)
    places = list(_places(whole))
    holder, key = draw(st.sampled_from(places))
    other_holder, other_key = draw(st.sampled_from(places))
    change = draw(st.sampled_from(("replace", "remove", "swap")))
    if change == "replace":
        holder[key] = draw(JSON)
    elif change == "remove":
        del holder[key]
    else:
        holder[key] = copy.deepcopy(other_holder[other_key])
    return whole


def _places(value: Any) -> Any:
    keys = range(len(value)) if isinstance(value, list) else list(value)
    for key in keys:
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from _places(value[key])


def understood(kind: type[Body], body: Any) -> Any:
    """The request; ``None`` if it is refused as a client's fault should be."""
    translate = {MessagesRequest: of_anthropic, ResponsesRequest: of_responses}
    try:
        return translate.get(kind, lambda chat: chat)(read(kind, body))
    except ApiError as error:
        told = error
    assert told.status == 400
    assert told.message
    return None


@given(damaged(claude_code("aaaaa")))
def test_anthropics(body: Any) -> None:
    request = understood(MessagesRequest, body)
    assert request is None or request.messages


@given(damaged(CODEX))
def test_responses(body: Any) -> None:
    request = understood(ResponsesRequest, body)
    assert request is None or request.messages


@given(damaged(LLAMA))
def test_llamas(body: Any) -> None:
    request = understood(LlamaRequest, body)
    assert request is None or request.completion.n_predict is not None


@given(damaged(CHAT))
def test_chats(body: Any) -> None:
    request = understood(ChatRequest, body)
    assert request is None or request.messages
