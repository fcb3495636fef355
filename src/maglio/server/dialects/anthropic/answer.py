"""An answer as Anthropic's clients read it: a message, whole or in events.

Boundary: from neutral deltas to documents.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import from_json

from maglio.server.task.delta import (
    CallArguments,
    CallBegan,
    ChatDelta,
    ContentText,
    Finished,
    ReasoningText,
)
from maglio.server.telemetry.usage import Usage

_SIGNATURE = "unsigned"
"""Stands where Anthropic signs thinking. Nothing here looks at it; clients want there to be one."""

_UNREADABLE = "INVALID_JSON"
"""Anthropic's name for arguments that cannot be read, given as their text."""
_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}

Event = dict[str, Any]


class Message:
    """A message that is being written.

    Args:
        id: its name.
        model: what the model is called.
        prompt: tokens of the prompt,
        cached: and how many of them were computed before.
    """

    def __init__(self, id: str, model: str, *, prompt: int, cached: int) -> None:  # noqa: A002
        self._id = id
        self._model = model
        self._usage = Usage(prompt_tokens=prompt, cached_tokens=cached)
        self._blocks: list[dict[str, Any]] = []
        self._arguments: dict[int, str] = {}  # by block, of calls
        self._is_open = False
        self._stop: dict[str, Any] = {"stop_reason": None, "stop_sequence": None}

    @property
    def document(self) -> dict[str, Any]:
        """All of it so far."""
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [self._block(index) for index in range(len(self._blocks))],
            **self._stop,
            "usage": usage_document(self._usage),
        }

    def begin(self) -> list[Event]:
        """The first events."""
        return [{"type": "message_start", "message": self.document}, {"type": "ping"}]

    def push(self, delta: ChatDelta) -> list[Event]:
        """Go on. Returns what is new."""
        if isinstance(delta, ContentText):
            return self._write("text", "text", delta.text)
        if isinstance(delta, ReasoningText):
            return self._write("thinking", "thinking", delta.text)
        if isinstance(delta, CallBegan):
            block = {"type": "tool_use", "id": delta.id, "name": delta.name, "input": {}}
            return [*self._close(), self._open(block)]
        if isinstance(delta, CallArguments):
            index = len(self._blocks) - 1
            self._arguments[index] = self._arguments.get(index, "") + delta.text
            return [self._delta({"type": "input_json_delta", "partial_json": delta.text})]
        if isinstance(delta, Finished):
            return self._end(delta)
        return []

    def _write(self, kind: str, name: str, text: str) -> list[Event]:
        events: list[Event] = []
        if not self._is_open or self._blocks[-1]["type"] != kind:
            signature = {"signature": ""} if kind == "thinking" else {}
            events += [*self._close(), self._open({"type": kind, name: "", **signature})]
        self._blocks[-1][name] += text
        return [*events, self._delta({"type": f"{kind}_delta", name: text})]

    def _open(self, block: dict[str, Any]) -> Event:
        self._blocks.append(block)
        self._is_open = True
        index = len(self._blocks) - 1
        return {"type": "content_block_start", "index": index, "content_block": dict(block)}

    def _delta(self, delta: dict[str, Any]) -> Event:
        return {"type": "content_block_delta", "index": len(self._blocks) - 1, "delta": delta}

    def _close(self) -> list[Event]:
        if not self._is_open:
            return []
        events: list[Event] = []
        if self._blocks[-1]["type"] == "thinking":
            self._blocks[-1]["signature"] = _SIGNATURE
            events.append(self._delta({"type": "signature_delta", "signature": _SIGNATURE}))
        self._is_open = False
        return [*events, {"type": "content_block_stop", "index": len(self._blocks) - 1}]

    def _end(self, end: Finished) -> list[Event]:
        reason = "stop_sequence" if end.stop_text is not None else _REASONS[end.reason]
        self._stop = {"stop_reason": reason, "stop_sequence": end.stop_text}
        self._usage = end.usage
        told = {"type": "message_delta", "delta": self._stop, "usage": usage_document(end.usage)}
        return [*self._close(), told, {"type": "message_stop"}]

    def _block(self, index: int) -> dict[str, Any]:
        block = self._blocks[index]
        if index not in self._arguments:
            return dict(block)
        return block | {"input": _input(self._arguments[index])}


def _input(arguments: str) -> Any:  # noqa: ANN401  # whatever JSON holds
    """Arguments as a value. An answer that was cut off may end within them."""
    try:
        value = from_json(arguments, allow_partial=True, allow_inf_nan=False)
        json.dumps(value, allow_nan=False)  # 1e999 was read as infinity
    except ValueError:  # half a character, a number out of range, or too deep: not all refuse that
        return {_UNREADABLE: arguments}
    return value


def usage_document(usage: Usage) -> dict[str, int]:
    """What was used; tokens that were computed before count apart."""
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
    }
