"""``/v1/responses``.

Boundary: HTTP.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from starlette.responses import Response

from maglio.server.dialects.responses.answer import ResponseWriter
from maglio.server.dialects.responses.body import ResponsesRequest
from maglio.server.dialects.responses.conversation import chat_request
from maglio.server.endpoint import Call, document, openai_error, openai_error_event
from maglio.server.errors import not_found
from maglio.server.http.event_stream import EventStream, event
from maglio.server.http.failure import told
from maglio.server.schema.chat import ChatRequest
from maglio.server.task.chat_task import ChatTask


async def responses(call: Call) -> Response:
    """Answer a conversation."""
    body = await call.body(ResponsesRequest)
    request = chat_request(body)
    if not body.stream:
        return await call.answer(_whole(call, body, request))
    return EventStream(
        _events(call, body, request),
        call.record,
        refuse=openai_error,
        broken=openai_error_event,
    )


async def stored_response(call: Call) -> Response:
    """A response of before: there are none."""
    name = call.http.path_params["name"]
    raise not_found(
        f"Response with id '{name:.100}' not found: responses are not stored on this server",
        param="response_id",
    )


async def _whole(call: Call, body: ResponsesRequest, request: ChatRequest) -> Response:
    async with await ChatTask.begin(request, call.state, call.record) as task:
        writer = _writer(call, body, task)
        async for delta in task.deltas():
            writer.push(delta)
    return document(writer.document)


async def _events(
    call: Call, body: ResponsesRequest, request: ChatRequest
) -> AsyncGenerator[bytes, None]:
    async with await ChatTask.begin(request, call.state, call.record) as task:
        writer = _writer(call, body, task)
        for each in writer.begin():
            yield event(each, name=each["type"])
        try:
            async for delta in task.deltas():
                for each in writer.push(delta):
                    yield event(each, name=each["type"])
        except Exception as error:
            failed = writer.fail(told(error, call.record))
            yield event(failed, name=failed["type"])


def _writer(call: Call, body: ResponsesRequest, task: ChatTask) -> ResponseWriter:
    tokenizer = call.state.model.tokenizer
    return ResponseWriter(_echo(call, body, task), body.namespaces, tokenizer)


def _echo(call: Call, body: ResponsesRequest, task: ChatTask) -> dict[str, Any]:
    """What a response says of its request."""
    form = None if body.text is None else body.text.format
    effort = None if body.reasoning is None else body.reasoning.effort
    text = {"type": "text"} if form is None else form.model_dump(by_alias=True, exclude_none=True)
    return {
        "created_at": call.state.now(),
        "model": task.model,
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "parallel_tool_calls": body.parallel_tool_calls,
        "previous_response_id": None,
        "reasoning": {"effort": effort, "summary": None},
        "store": False,
        "temperature": body.temperature,
        "text": {"format": text},
        "tool_choice": body.tool_choice,
        "tools": [tool.model_dump(exclude_none=True) for tool in body.tools],
        "top_p": body.top_p,
        "truncation": "disabled",
        "metadata": {},
        "seed": task.seed,
        "system_fingerprint": call.state.fingerprint,
    }
