"""``/v1/chat/completions``.

Boundary: OpenAI's wire form of a chat, whole and in chunks.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Iterable
from typing import Any

from starlette.responses import Response

from maglio.server.dialects.openai.logprobs import chat_logprobs
from maglio.server.endpoint import Call, document, openai_stream
from maglio.server.http.event_stream import event
from maglio.server.schema.chat import ChatRequest
from maglio.server.task.chat_task import ChatTask
from maglio.server.task.delta import (
    CallArguments,
    CallBegan,
    ChatDelta,
    ContentText,
    Finished,
    Forward,
    ReasoningText,
    Sourced,
    usage_of,
)
from maglio.text import Tokenizer


async def chat_completions(call: Call) -> Response:
    """Answer a conversation."""
    body = await call.body(ChatRequest)
    if body.stream:
        return openai_stream(call, _events(call, body))
    return await call.answer(_whole(call, body))


async def _whole(call: Call, body: ChatRequest) -> Response:
    tokenizer = call.state.model.tokenizer
    choices = [_Choice(index, body, tokenizer) for index in range(body.n)]
    ends: list[Finished] = []
    async with await ChatTask.begin(body, call.state, call.record) as task:
        async for delta in task.deltas():
            choices[delta.index].add(delta)
            if isinstance(delta, Finished):
                ends.append(delta)
    usage = usage_of(sorted(ends, key=lambda end: end.index))
    head = _head(call, task, "chat.completion")
    answers = [choice.document for choice in choices]
    return document(head | {"choices": answers, "usage": usage.document, "timings": usage.timings})


async def _events(call: Call, body: ChatRequest) -> AsyncGenerator[bytes, None]:
    tokenizer = call.state.model.tokenizer
    ends: list[Finished] = []
    async with await ChatTask.begin(body, call.state, call.record) as task:
        head = _head(call, task, "chat.completion.chunk")
        tail: dict[str, Any] = {"usage": None} if body.includes_usage else {}
        begun: set[int] = set()
        async for delta in task.deltas():
            if delta.index not in begun:
                begun.add(delta.index)
                role = {"role": "assistant", "content": ""}
                yield event(head | {"choices": [_chunk(delta.index, role)]} | tail)
            if isinstance(delta, Forward) and not body.token_sources:
                continue
            choice = _choice_chunk(delta, body, tokenizer)
            more = tail
            if isinstance(delta, Finished):
                ends.append(delta)
                more = tail | {"timings": delta.usage.timings}
            yield event(head | {"choices": [choice]} | more)
        if body.includes_usage:
            usage = usage_of(sorted(ends, key=lambda end: end.index))
            yield event(head | {"choices": [], "usage": usage.document, "timings": usage.timings})
    yield event("[DONE]")


class _Choice:
    """One choice of a whole answer, put together."""

    def __init__(self, index: int, body: ChatRequest, tokenizer: Tokenizer) -> None:
        self._index = index
        self._body = body
        self._tokenizer = tokenizer
        self._deltas: list[ChatDelta] = []

    def add(self, delta: ChatDelta) -> None:
        self._deltas.append(delta)

    @property
    def document(self) -> dict[str, Any]:
        """The choice on the wire."""
        content = [delta for delta in self._deltas if isinstance(delta, ContentText)]
        thinking = [delta for delta in self._deltas if isinstance(delta, ReasoningText)]
        calls = self._calls()
        text = "".join(delta.text for delta in content)
        message: dict[str, Any] = {
            "role": "assistant",
            "content": None if calls and not text else text,
            "refusal": None,
        }
        if thinking:
            message["reasoning_content"] = "".join(delta.text for delta in thinking)
        if calls:
            message["tool_calls"] = calls
        choice: dict[str, Any] = {"index": self._index, "message": message, "logprobs": None}
        if self._body.logprobs:
            logprobs = [one for delta in content for one in delta.logprobs]
            choice["logprobs"] = chat_logprobs(logprobs, self._tokenizer)
        if self._body.token_sources:
            choice["sources"] = _sources(piece for delta in content for piece in delta.sources)
        ends = [delta for delta in self._deltas if isinstance(delta, Finished)]
        return choice | {"finish_reason": ends[0].reason if ends else None}

    def _calls(self) -> list[dict[str, Any]]:
        arguments: dict[int, str] = {}
        for delta in self._deltas:
            if isinstance(delta, CallArguments):
                arguments[delta.call] = arguments.get(delta.call, "") + delta.text
        return [
            {
                "id": delta.id,
                "type": "function",
                "function": {"name": delta.name, "arguments": arguments.get(delta.call, "")},
            }
            for delta in self._deltas
            if isinstance(delta, CallBegan)
        ]


def _choice_chunk(delta: ChatDelta, body: ChatRequest, tokenizer: Tokenizer) -> dict[str, Any]:
    if isinstance(delta, Forward):
        counts = {"drafted": delta.drafted, "accepted": delta.accepted}
        return _chunk(delta.index, {}) | {"forward": {"sources": list(delta.sources), **counts}}
    if isinstance(delta, Finished):
        return _chunk(delta.index, {}, reason=delta.reason)
    if isinstance(delta, CallBegan):
        function = {"name": delta.name, "arguments": ""}
        begun = {"index": delta.call, "id": delta.id, "type": "function", "function": function}
        return _chunk(delta.index, {"tool_calls": [begun]})
    if isinstance(delta, CallArguments):
        more = {"index": delta.call, "function": {"arguments": delta.text}}
        return _chunk(delta.index, {"tool_calls": [more]})
    name = "content" if isinstance(delta, ContentText) else "reasoning_content"
    choice = _chunk(delta.index, {name: delta.text})
    if isinstance(delta, ContentText) and body.logprobs:
        choice["logprobs"] = chat_logprobs(delta.logprobs, tokenizer)
    if body.token_sources:
        choice["sources"] = _sources(delta.sources)
    return choice


def _chunk(index: int, delta: dict[str, Any], *, reason: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}


def _sources(pieces: Iterable[Sourced]) -> list[dict[str, str]]:
    return [{"text": piece.text, "source": piece.source} for piece in pieces]


def _head(call: Call, task: ChatTask, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "object": kind,
        "created": call.state.now(),
        "model": task.model,
        "system_fingerprint": call.state.fingerprint,
        "seed": task.seed,
    }
