"""Whether a reply is a well-formed answer or a typed error, and what it says.

What an answer says is the same for equal requests: no ids, no times, nothing of how it was drafted
or what was read before.
"""

from __future__ import annotations

import json
from typing import Any

from soak_wire import Reply

Said = Any
"""What an answer says: lists and texts, to be compared."""


class MalformedError(Exception):
    """A reply that no client can read."""


def error_code(reply: Reply, *, anthropic: bool) -> str:
    """The code of an error object.

    Raises:
        MalformedError: it is not one.
    """
    try:
        document = json.loads(reply.body)
        found = document["error"]
        if not isinstance(found["message"], str) or not found["message"]:
            raise MalformedError("the error has no message")
        if anthropic:
            if document["type"] != "error":
                raise MalformedError("the document is not an error")
            return str(found["type"])
        if set(found) != {"message", "type", "param", "code"}:
            raise MalformedError(f"the error has the fields {sorted(found)}")
        return str(found["code"])
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedError(f"not an error object: {reply.body[:200]!r}") from error


def said(kind: str, reply: Reply, *, streamed: bool) -> Said:
    """What an answer says.

    Raises:
        MalformedError: it is not an answer of this kind.
    """
    try:
        if not reply.is_whole:
            raise MalformedError("the answer ends in the middle")
        wanted = "text/event-stream" if streamed else "application/json"
        if reply.kind != wanted:
            raise MalformedError(f"the answer is {reply.kind}, not {wanted}")
        if streamed:
            return _STREAMED[kind](_events(reply.body.decode()))
        return _WHOLE[kind](json.loads(reply.body))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise MalformedError(f"{error!r} in {reply.body[-400:]!r}") from error


def _events(text: str) -> list[dict[str, Any] | str]:
    blocks = [block for block in text.split("\n\n") if block and not block.startswith(":")]
    found: list[dict[str, Any] | str] = []
    for block in blocks:
        data = block.split("\n")[-1]
        if not data.startswith("data: "):
            raise MalformedError(f"not an event: {block!r:.200}")
        data = data.removeprefix("data: ")
        found.append(data if data == "[DONE]" else json.loads(data))
    errors = [one for one in found if isinstance(one, dict) and one.get("error")]
    if errors:
        raise MalformedError(f"the stream tells of an error: {errors[0]}")
    return found


def _choices(document: dict[str, Any]) -> Said:
    """Of a chat."""
    out = []
    for choice in document["choices"]:
        message = choice["message"]
        calls = [(c["function"]["name"], c["function"]["arguments"])
                 for c in message.get("tool_calls", ())]  # fmt: skip
        out.append([
            message["content"] or "",
            message.get("reasoning_content", ""),
            calls,
            (choice["logprobs"] or {}).get("content", []),
            _reason(choice),
        ])  # fmt: skip
    return out


def _chat_stream(events: list[Any]) -> Said:
    choices: dict[int, list[Any]] = {}
    for chunk in _until_done(events):
        for choice in chunk["choices"]:
            one = choices.setdefault(choice["index"], ["", "", [], [], None])
            delta = choice["delta"]
            one[0] += delta.get("content") or ""
            one[1] += delta.get("reasoning_content") or ""
            for call in delta.get("tool_calls", ()):
                function = call["function"]
                if "name" in function:
                    one[2].append((function["name"], ""))
                name, arguments = one[2][call["index"]]
                one[2][call["index"]] = (name, arguments + function["arguments"])
            one[3] += (choice["logprobs"] or {}).get("content", [])
            one[4] = choice["finish_reason"] or one[4]
    return [_ended(choices[index]) for index in sorted(choices)]


def _texts(document: dict[str, Any]) -> Said:
    """Of a completion."""
    return [[c["text"], _flat(c["logprobs"]), _reason(c)] for c in document["choices"]]


def _texts_stream(events: list[Any]) -> Said:
    choices: dict[int, list[Any]] = {}
    for chunk in _until_done(events):
        for choice in chunk["choices"]:
            one = choices.setdefault(choice["index"], ["", [], None])
            one[0] += choice["text"]
            one[1] += _flat(choice["logprobs"])
            one[2] = choice["finish_reason"] or one[2]
    return [_ended(choices[index]) for index in sorted(choices)]


def _blocks(document: dict[str, Any]) -> Said:
    """Of Anthropic's messages."""
    found = [
        (
            block["type"],
            json.dumps(block["input"])
            if block["type"] == "tool_use"
            else block[block["type"]],  # its text or its thinking
        )
        for block in document["content"]
    ]
    return [found, document["stop_reason"], document["usage"]["output_tokens"]]


def _blocks_stream(events: list[Any]) -> Said:
    blocks: list[tuple[str, str]] = []
    reason, tokens = None, 0
    for one in events:
        if one["type"] == "content_block_start":
            blocks.append((one["content_block"]["type"], ""))
        elif one["type"] == "content_block_delta":
            kind, text = blocks[one["index"]]
            delta = one["delta"]
            text += delta.get("text") or delta.get("thinking") or delta.get("partial_json") or ""
            blocks[one["index"]] = (kind, text)
        elif one["type"] == "message_delta":
            reason, tokens = one["delta"]["stop_reason"], one["usage"]["output_tokens"]
    if events[-1]["type"] != "message_stop":
        raise MalformedError("the stream ends in the middle")
    return [blocks, reason, tokens]


def _items(document: dict[str, Any]) -> Said:
    """Of the Responses API."""
    found = [
        (
            item["type"],
            "".join(part["text"] for part in item.get("content") or ()),
            item.get("arguments"),
        )
        for item in document["output"]
    ]
    if document["status"] not in ("completed", "incomplete"):
        raise MalformedError(f"the status is {document['status']}")
    return [found, document["status"], document["usage"]["output_tokens"]]


def _items_stream(events: list[Any]) -> Said:
    return _items(events[-1]["response"])


def _llama(document: dict[str, Any]) -> Said:
    return [document["content"], document["stop_type"], document["tokens_predicted"]]


def _llama_stream(events: list[Any]) -> Said:
    last = events[-1]
    return ["".join(e["content"] for e in events), last["stop_type"], last["tokens_predicted"]]


def _until_done(events: list[Any]) -> list[Any]:
    if events[-1] != "[DONE]":
        raise MalformedError("the stream ends without [DONE]")
    return events[:-1]


def _reason(choice: dict[str, Any]) -> str:
    return str(_ended([choice["finish_reason"]])[0])


def _ended(choice: list[Any]) -> list[Any]:
    if choice[-1] not in ("stop", "length", "tool_calls"):
        raise MalformedError(f"finish_reason is {choice[-1]!r}")
    return choice


def _flat(logprobs: dict[str, Any] | None) -> list[Any]:
    if logprobs is None:
        return []
    names = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
    return [list(row) for row in zip(*(logprobs[name] for name in names), strict=True)]


_WHOLE = {
    "chat": _choices,
    "completion": _texts,
    "messages": _blocks,
    "responses": _items,
    "llama": _llama,
}
_STREAMED = {
    "chat": _chat_stream,
    "completion": _texts_stream,
    "messages": _blocks_stream,
    "responses": _items_stream,
    "llama": _llama_stream,
}
