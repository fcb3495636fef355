"""From a body of Anthropic's to the request that it stands for.

Boundary: translates; reads no model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from maglio.server.dialects.anthropic.body import (
    CountRequest,
    DocumentBlock,
    MessagesRequest,
    SearchResultBlock,
    SystemBlock,
    TextBlock,
    ThinkingBlock,
    ToolReferenceBlock,
    ToolResultBlock,
    ToolUseBlock,
    Turn,
)
from maglio.server.dialects.turns import Turns
from maglio.server.errors import ApiError
from maglio.server.schema.chat import ChatRequest
from maglio.server.schema.wire import read

_BILLING = "x-anthropic-billing-header:"
"""Claude Code begins its instructions with such a line for Anthropic's accounting. It differs from
request to request, so nothing after it could be kept; and it says nothing to a model."""

_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_EFFORTS = {"max": "xhigh"}  # the strongest that the chat's own field has


def chat_request(body: CountRequest) -> ChatRequest:
    """The same in the server's own terms.

    Raises:
        ApiError: it asks for what cannot be done.
    """
    turns = _turns(body)
    document: dict[str, Any] = {
        "model": body.model,
        "messages": turns.messages,
        "continue_final_message": turns.ends_with_assistant,
        "reasoning_effort": _effort(body),
    }
    if body.tools:
        document |= {"tools": [_tool(tool.model_dump()) for tool in body.tools]}
    if body.tool_choice is not None:
        document |= _choice(body)
    if (schema := _schema(body)) is not None:
        form = {"type": "json_schema", "json_schema": {"schema": schema}}
        document |= {"response_format": form}
    if isinstance(body, MessagesRequest):
        document |= {
            "max_tokens": body.max_tokens,
            "stop": body.stop_sequences,
            "temperature": body.temperature,
            "top_p": body.top_p,
            "top_k": body.top_k,
            "references": body.references,
        }
        if body.speculative is not None:
            document |= {"speculative": body.speculative.model_dump(exclude_none=True)}
    return read(ChatRequest, document)


def _turns(body: CountRequest) -> Turns:
    turns = Turns()
    turns.system(_joined(_without_billing(block.text) for block in body.system))
    for turn in body.messages:
        _tell(turns, turn)
    return turns


def _tell(turns: Turns, turn: Turn) -> None:
    say = {"user": turns.user, "assistant": turns.assistant, "system": turns.system}[turn.role]
    for block in turn.content:
        if isinstance(block, ToolResultBlock):
            turns.result(_result(block), id=block.tool_use_id)
        elif isinstance(block, ToolUseBlock):
            turns.call(block.name, json.dumps(block.input, ensure_ascii=False), id=block.id)
        elif isinstance(block, ThinkingBlock):
            turns.assistant(reasoning=block.thinking)
        else:
            say(_text(block))


def _result(block: ToolResultBlock) -> str:
    text = _joined(map(_text, block.content))
    return text if text or not block.is_error else "error"


def _text(block: object) -> str:
    """The text of a block; of thinking that cannot be read, none."""
    if isinstance(block, TextBlock):
        return block.text
    if isinstance(block, ToolReferenceBlock):
        return block.tool_name
    if isinstance(block, DocumentBlock):
        return _joined([block.title or "", block.source.data])
    if isinstance(block, SearchResultBlock):
        return _joined([block.title, *map(_text, block.content)])
    if isinstance(block, SystemBlock):
        return _joined(map(_text, block.content))
    return ""


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text)


def _without_billing(text: str) -> str:
    if not text.startswith(_BILLING):
        return text
    return text.partition("\n")[2]


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = {"name": tool["name"], "parameters": tool["input_schema"]}
    if tool["description"] is not None:
        function["description"] = tool["description"]
    return {"type": "function", "function": function}


def _choice(body: CountRequest) -> dict[str, Any]:
    choice = body.tool_choice
    if choice is None:
        return {}
    parallel = {"parallel_tool_calls": not choice.disable_parallel_tool_use}
    if choice.type != "tool":
        return {"tool_choice": _CHOICES[choice.type], **parallel}
    if choice.name not in {tool.name for tool in body.tools}:
        raise ApiError(
            f"tool_choice names the tool {choice.name!r:.100}, which is not among tools",
            param="tool_choice.name",
            code="invalid_value",
        )
    named = {"type": "function", "function": {"name": choice.name}}
    return {"tool_choice": named, **parallel}


def _effort(body: CountRequest) -> str | None:
    """How much the model thinks; as it usually does where the request does not say."""
    thinking = None if body.thinking is None else body.thinking.type
    effort = None if body.output_config is None else body.output_config.effort
    if thinking == "disabled":
        return "none"
    if effort is None:
        return None if thinking is None else "medium"
    return _EFFORTS.get(effort, effort)


def _schema(body: CountRequest) -> Any:  # noqa: ANN401  # a JSON schema
    config = body.output_config
    asked = body.output_format if config is None or config.format is None else config.format
    return None if asked is None else asked.json_schema
