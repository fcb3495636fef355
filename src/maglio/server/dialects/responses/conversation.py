"""From a body of the Responses API to the request that it stands for.

Boundary: translates; reads no model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from maglio.server.dialects.responses.body import (
    CallItem,
    CustomCallItem,
    FunctionTool,
    Item,
    MessageItem,
    OutputItem,
    ReasoningItem,
    ResponsesRequest,
    TextFormat,
    joined_name,
)
from maglio.server.dialects.responses.reasoning import unpacked
from maglio.server.dialects.turns import Turns
from maglio.server.errors import ApiError
from maglio.server.schema.chat import ChatRequest
from maglio.server.schema.wire import read


def chat_request(body: ResponsesRequest) -> ChatRequest:
    """The same in the server's own terms.

    Raises:
        ApiError: it asks for what cannot be done.
    """
    document: dict[str, Any] = {
        "model": body.model,
        "messages": _turns(body).messages,
        "max_completion_tokens": body.max_output_tokens,
        "temperature": body.temperature,
        "top_p": body.top_p,
        "seed": body.seed,
        "references": body.references,
    }
    if body.reasoning is not None:
        document |= {"reasoning_effort": body.reasoning.effort}
    if body.functions:
        document |= {
            "tools": [_tool(function) for function in body.functions],
            "tool_choice": _choice(body),
            "parallel_tool_calls": body.parallel_tool_calls,
        }
    if body.text is not None and body.text.format is not None:
        document |= {"response_format": _format(body.text.format)}
    if body.wants_logprobs:
        document |= {"logprobs": True, "top_logprobs": body.top_logprobs}
    if body.speculative is not None:
        document |= {"speculative": body.speculative.model_dump(exclude_none=True)}
    return read(ChatRequest, document)


def _turns(body: ResponsesRequest) -> Turns:
    turns = Turns()
    turns.system(body.instructions or "")
    for item in body.input:
        _tell(turns, item)
    return turns


def _tell(turns: Turns, item: Item) -> None:
    if isinstance(item, MessageItem):
        text = item.content or ""
        tell = {"user": turns.user, "assistant": turns.assistant}.get(item.role, turns.system)
        tell(text)
    elif isinstance(item, ReasoningItem):
        turns.assistant(reasoning=_thinking(item))
    elif isinstance(item, CallItem):
        name = joined_name(item.namespace, item.name)
        turns.call(name, item.arguments or "{}", id=item.call_id)
    elif isinstance(item, CustomCallItem):
        arguments = json.dumps({"input": item.input}, ensure_ascii=False)
        turns.call(item.name, arguments, id=item.call_id)
    elif isinstance(item, OutputItem):
        turns.result(item.output or "", id=item.call_id)


def _thinking(item: ReasoningItem) -> str:
    if item.content:
        return "\n".join(part.text for part in item.content)
    return unpacked(item.encrypted_content or "")


def _tool(function: FunctionTool) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": function.name,
        "description": function.description,
        "parameters": function.parameters,
    }
    return {
        "type": "function",
        "function": {name: value for name, value in told.items() if value is not None},
    }


def _choice(body: ResponsesRequest) -> Any:  # noqa: ANN401  # checked by the chat's own schema
    choice = body.tool_choice
    if not isinstance(choice, Mapping):
        return choice
    names = [function.name for function in body.functions]
    if choice.get("type") != "function" or choice.get("name") not in names:
        raise ApiError(
            "tool_choice must be none, auto, required, or name a function of tools, as in "
            '{"type": "function", "name": "…"}',
            param="tool_choice",
            code="invalid_value",
        )
    return choice


def _format(form: TextFormat) -> dict[str, Any]:
    if form.type != "json_schema":
        return {"type": form.type}
    return {
        "type": "json_schema",
        "json_schema": {"name": form.name, "schema": form.json_schema},
    }
