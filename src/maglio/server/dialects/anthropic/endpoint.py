"""``/v1/messages`` and ``/v1/messages/count_tokens``.

Boundary: HTTP. Headers such as ``anthropic-version`` and ``anthropic-beta`` are not looked at:
there is one version here, and what a beta adds is a field of the body.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator

import anyio.to_thread
from starlette.responses import Response

from maglio.server.dialects.anthropic.answer import Message
from maglio.server.dialects.anthropic.body import CountRequest, MessagesRequest
from maglio.server.dialects.anthropic.conversation import chat_request
from maglio.server.dialects.anthropic.errors import anthropic_error, anthropic_error_event
from maglio.server.endpoint import Call, document
from maglio.server.http.event_stream import EventStream, event
from maglio.server.schema.chat import ChatRequest
from maglio.server.task.chat_prompt import chat_prompt
from maglio.server.task.chat_task import ChatTask

PREFIX = "/v1/messages"


async def messages(call: Call) -> Response:
    """Answer a conversation."""
    body = await call.body(MessagesRequest)
    request = chat_request(body)
    if not body.stream:
        return await call.answer(_whole(call, request))
    return EventStream(
        _events(call, request),
        call.record,
        refuse=anthropic_error,
        broken=anthropic_error_event,
    )


async def count_tokens(call: Call) -> Response:
    """Count the tokens of a conversation as the model would read it."""
    request = chat_request(await call.body(CountRequest))
    call.state.settings.name_of(request.model)
    prompt = await anyio.to_thread.run_sync(chat_prompt, request, call.state)
    return document({"input_tokens": len(prompt.ids)})


async def _whole(call: Call, request: ChatRequest) -> Response:
    async with await ChatTask.begin(request, call.state, call.record) as task:
        message = _message(task)
        async for delta in task.deltas():
            message.push(delta)
    return document(message.document)


async def _events(call: Call, request: ChatRequest) -> AsyncGenerator[bytes, None]:
    async with await ChatTask.begin(request, call.state, call.record) as task:
        message: Message | None = None
        async for delta in task.deltas():
            told = []
            if message is None:  # only now it is known what was computed before
                message = _message(task)
                told = message.begin()
            for each in [*told, *message.push(delta)]:
                yield event(each, name=each["type"])


def _message(task: ChatTask) -> Message:
    return Message(
        f"msg_{secrets.token_hex(12)}",
        task.model,
        prompt=len(task.prompt.ids),
        cached=task.cached_tokens,
    )
