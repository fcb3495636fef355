"""Messages of earlier turns, as a template wants them; and tools told of in a system message.

Boundary: mappings in, new mappings out; what is given is not changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from maglio.errors import InvalidArgumentError
from maglio.text.template import Message

ArgumentsAs = Literal["mapping", "text"]
"""How a template wants the arguments of calls: as they are, or as JSON."""

_TOOLS = """You may call tools to help with the answer. The tools are described in JSON, one a line:

{tools}

To call a tool, write a JSON object with its name and its arguments between tags, and nothing after:

<tool_call>
{{"name": "the tool's name", "arguments": {{"an argument's name": "its value"}}}}
</tool_call>

What the tool answers comes back to you in a later message."""


def normalised(
    messages: Sequence[Message], *, arguments_as: ArgumentsAs = "mapping"
) -> list[dict[str, Any]]:
    """Return messages whose calls have their arguments in one form.

    Args:
        messages: the conversation; ``tool_calls`` in OpenAI's form, arguments as JSON or as a
            mapping.
        arguments_as: the form.

    Raises:
        InvalidArgumentError: the arguments of a call are not a JSON object.
    """
    return [_message(message, arguments_as) for message in messages]


def described(
    messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], *, as_system: bool
) -> list[dict[str, Any]]:
    """Return messages that tell of tools without the template's help.

    Calls and what they returned become text.

    Args:
        messages: the conversation, its arguments as mappings.
        tools: descriptions in OpenAI's form.
        as_system: whether the tools come with the system message, or else before what the user
            says first.
    """
    lines = (json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools)
    told = _TOOLS.format(tools="\n".join(lines))
    plain: list[dict[str, Any]] = []
    for message in messages:
        said = _spelled(message)
        last = plain[-1] if plain else None
        if last is not None and last["role"] == said["role"] == "user":
            last["content"] = f"{_text(last)}\n{_text(said)}"  # templates take turns
        else:
            plain.append(said)
    begins_with_system = bool(plain) and plain[0]["role"] in ("system", "developer")
    if begins_with_system:
        told = f"{_text(plain[0])}\n\n{told}"
    rest = plain[1:] if begins_with_system else plain
    if as_system:
        return [{"role": "system", "content": told}, *rest]
    if rest and rest[0]["role"] == "user":
        told, rest = f"{told}\n\n{_text(rest[0])}", rest[1:]
    return [{"role": "user", "content": told}, *rest]


def _message(message: Message, arguments_as: ArgumentsAs) -> dict[str, Any]:
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return dict(message)
    return {**message, "tool_calls": [_call(call, arguments_as) for call in calls]}


def _call(call: object, arguments_as: ArgumentsAs) -> object:
    if not isinstance(call, Mapping):
        return call
    function = call.get("function")
    if not isinstance(function, Mapping):
        return dict(call)
    arguments = _arguments(function)
    if arguments_as == "text":
        given = json.dumps(arguments, ensure_ascii=False)
        return {**call, "function": {**function, "arguments": given}}
    return {**call, "function": {**function, "arguments": arguments}}


def _arguments(function: Mapping[str, Any]) -> Mapping[str, Any]:
    given = function.get("arguments")
    if isinstance(given, str):
        try:
            given = json.loads(given) if given.strip() else {}
        except (ValueError, RecursionError) as error:
            raise InvalidArgumentError(
                f"arguments of the call of {function.get('name')!r:.80} are not valid JSON: {error}"
            ) from None
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(
            f"arguments of the call of {function.get('name')!r:.80} are {given!r:.80}, "
            "must be a JSON object"
        )
    return given


def _spelled(message: Message) -> dict[str, Any]:
    """A message in which calls and their results are text."""
    if message.get("role") == "tool":
        text = f"<tool_response>\n{_text(message)}\n</tool_response>"
        return {"role": "user", "content": text}
    calls = message.get("tool_calls")
    said = {key: value for key, value in message.items() if key != "tool_calls"}
    if isinstance(calls, list) and calls:
        texts = [_text(message)] if _text(message) else []
        for call in calls:
            function = call.get("function", call)
            called = {"name": function.get("name"), "arguments": function.get("arguments")}
            written = json.dumps(called, ensure_ascii=False)
            texts.append(f"<tool_call>\n{written}\n</tool_call>")
        said["content"] = "\n".join(texts)
    return said


def _text(message: Message) -> str:
    content = message.get("content")
    if isinstance(content, list):
        parts = (part.get("text", "") for part in content if isinstance(part, Mapping))
        return "".join(map(str, parts))
    return "" if content is None else str(content)
