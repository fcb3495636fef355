"""An answer as clients of the Responses API read it: a response, whole or in events.

Boundary: from neutral deltas to documents. An answer is a list of items: thinking, messages, calls.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from maglio.server.dialects.openai.logprobs import chat_logprobs
from maglio.server.dialects.responses.reasoning import packed
from maglio.server.errors import ApiError
from maglio.server.task.delta import (
    CallArguments,
    CallBegan,
    ChatDelta,
    ContentText,
    Finished,
    ReasoningText,
)
from maglio.server.telemetry.usage import Usage
from maglio.text import Tokenizer

Event = dict[str, Any]


class ResponseWriter:
    """A response that is being written.

    Args:
        echo: what the response says of its request.
        namespaces: namespace and name of functions, by the names that the model sees.
        tokenizer: names tokens that have log-probabilities.
    """

    def __init__(
        self,
        echo: Mapping[str, Any],
        namespaces: Mapping[str, tuple[str, str]],
        tokenizer: Tokenizer,
    ) -> None:
        self._head = {"id": _name("resp"), "object": "response", **echo}
        self._namespaces = namespaces
        self._tokenizer = tokenizer
        self._items: list[dict[str, Any]] = []
        self._is_open = False
        self._status = "in_progress"
        self._outcome: dict[str, Any] = {"error": None, "incomplete_details": None}
        self._usage: Usage | None = None
        self._number = 0

    @property
    def document(self) -> dict[str, Any]:
        """All of it so far."""
        usage = None if self._usage is None else usage_document(self._usage)
        return {
            **self._head,
            "status": self._status,
            **self._outcome,
            "output": [_copy(item) for item in self._items],
            "usage": usage,
        }

    def begin(self) -> list[Event]:
        """The first events."""
        return [self._whole("response.created"), self._whole("response.in_progress")]

    def push(self, delta: ChatDelta) -> list[Event]:
        """Go on. Returns what is new."""
        if isinstance(delta, ContentText):
            events = self._want("message", "output_text")
            return [*events, self._write_text(delta)]
        if isinstance(delta, ReasoningText):
            events = self._want("reasoning", "reasoning_text")
            self._items[-1]["content"][0]["text"] += delta.text
            return [*events, self._part_event("response.reasoning_text.delta", delta=delta.text)]
        if isinstance(delta, CallBegan):
            return [*self._close(), *self._open(self._call(delta))]
        if isinstance(delta, CallArguments):
            self._items[-1]["arguments"] += delta.text
            kind = "response.function_call_arguments.delta"
            return [self._item_event(kind, delta=delta.text)]
        if isinstance(delta, Finished):
            return self._end(delta)
        return []

    def fail(self, error: ApiError) -> Event:
        """The last event of an answer that failed."""
        self._status = "failed"
        self._outcome["error"] = {"code": error.code or error.kind, "message": error.message}
        return self._whole("response.failed")

    def _write_text(self, delta: ContentText) -> Event:
        part = self._items[-1]["content"][0]
        part["text"] += delta.text
        logprobs = chat_logprobs(delta.logprobs, self._tokenizer)["content"]
        part["logprobs"] += logprobs
        kind = "response.output_text.delta"
        return self._part_event(kind, delta=delta.text, logprobs=logprobs)

    def _call(self, began: CallBegan) -> dict[str, Any]:
        namespace, name = self._namespaces.get(began.name, (None, began.name))
        item = {
            "id": _name("fc"),
            "type": "function_call",
            "status": "in_progress",
            "call_id": began.id,
            "name": name,
            "arguments": "",
        }
        return item if namespace is None else item | {"namespace": namespace}

    def _want(self, kind: str, part: str) -> list[Event]:
        """Make sure that the last item is open and of this kind."""
        if self._is_open and self._items[-1]["type"] == kind:
            return []
        return [*self._close(), *self._open(_item(kind, part)), self._part("added")]

    def _open(self, item: dict[str, Any]) -> list[Event]:
        self._items.append(item)
        self._is_open = True
        return [self._output("added")]

    def _close(self, status: str = "completed") -> list[Event]:
        """Nothing follows of the last item; it is ``incomplete`` if it was cut off."""
        if not self._is_open:
            return []
        self._is_open = False
        item = self._items[-1]
        item["status"] = status
        if item["type"] == "function_call":
            kind = "response.function_call_arguments.done"
            named = {"name": item["name"], "arguments": item["arguments"]}
            return [self._item_event(kind, **named), self._output("done")]
        part = item["content"][0]
        if item["type"] == "reasoning":
            item["encrypted_content"] = packed(part["text"])
            done = self._part_event("response.reasoning_text.done", text=part["text"])
        else:
            kind = "response.output_text.done"
            done = self._part_event(kind, text=part["text"], logprobs=list(part["logprobs"]))
        return [done, self._part("done"), self._output("done")]

    def _end(self, end: Finished) -> list[Event]:
        self._status = "incomplete" if end.reason == "length" else "completed"
        events = self._close(self._status)
        self._usage = end.usage
        if end.reason == "length":
            self._outcome["incomplete_details"] = {"reason": "max_output_tokens"}
        return [*events, self._whole(f"response.{self._status}")]

    def _whole(self, kind: str) -> Event:
        return self._event(kind, response=self.document)

    def _output(self, kind: str) -> Event:
        item = _copy(self._items[-1])
        return self._event(
            f"response.output_item.{kind}", output_index=len(self._items) - 1, item=item
        )

    def _part(self, kind: str) -> Event:
        part = _copy(self._items[-1])["content"][0]
        return self._part_event(f"response.content_part.{kind}", part=part)

    def _part_event(self, kind: str, **more: Any) -> Event:  # noqa: ANN401  # goes into JSON
        return self._item_event(kind, content_index=0, **more)

    def _item_event(self, kind: str, **more: Any) -> Event:  # noqa: ANN401
        index = len(self._items) - 1
        return self._event(kind, item_id=self._items[-1]["id"], output_index=index, **more)

    def _event(self, kind: str, **more: Any) -> Event:  # noqa: ANN401
        number, self._number = self._number, self._number + 1
        return {"type": kind, "sequence_number": number, **more}


def usage_document(usage: Usage) -> dict[str, Any]:
    """What was used."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def _item(kind: str, part: str) -> dict[str, Any]:
    if kind == "message":
        content = {"type": part, "text": "", "annotations": [], "logprobs": []}
        named = {"id": _name("msg"), "type": kind, "status": "in_progress", "role": "assistant"}
        return {**named, "content": [content]}
    return {
        "id": _name("rs"),
        "type": kind,
        "status": "in_progress",
        "summary": [],
        "content": [{"type": part, "text": ""}],
        "encrypted_content": None,
    }


def _copy(item: dict[str, Any]) -> dict[str, Any]:
    if "content" not in item:
        return dict(item)
    return item | {"content": [dict(part) for part in item["content"]]}


def _name(kind: str) -> str:
    return f"{kind}_{secrets.token_hex(16)}"
