"""The messages of a conversation, and the tools that a model may call.

Boundary: their shape. Names that only the chat template reads are kept, since it is the template
that says what a message is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, JsonValue
from pydantic_core import PydanticCustomError

from maglio.server.schema.texts import Content
from maglio.server.schema.wire import Many, Open, Wire

ToolName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:/-]{1,128}$")]


class CalledFunction(Open):
    """What was called, and with which arguments: a JSON object, mostly as text."""

    name: str
    arguments: str | dict[str, JsonValue] = "{}"


class ToolCall(Open):
    """A call that the assistant made."""

    id: str | None = None
    type: Literal["function"] = "function"
    function: CalledFunction


class Message(Open):
    """One message."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Content = None
    name: str | None = None
    reasoning_content: str | None = None
    tool_calls: Many[ToolCall] | None = None
    tool_call_id: str | None = None


class Function(Open):
    """A function that the model may call; ``parameters`` is a JSON schema."""

    name: ToolName
    description: str | None = None
    parameters: dict[str, JsonValue] | None = None
    strict: bool | None = None


class Tool(Open):
    """A tool; only functions are supported."""

    type: Literal["function"] = "function"
    function: Function


class ToolChoice(Wire):
    """Whether, and what, the model must call, in one shape.

    Attributes:
        mode: ``none``, ``auto`` or ``required``.
        name: the function that must be called; ``None`` for any.
    """

    mode: Literal["none", "auto", "required"]
    name: str | None = None


def _tool_choice(choice: Any) -> Any:  # noqa: ANN401  # whatever JSON holds
    if choice in ("none", "auto", "required"):
        return {"mode": choice}
    if isinstance(choice, Mapping) and choice.get("type") == "function":
        function = choice.get("function", choice)  # the Responses API names it without a level
        name = function.get("name") if isinstance(function, Mapping) else None
        if isinstance(name, str):
            return {"mode": "required", "name": name}
    raise PydanticCustomError(
        "tool_choice",
        'must be none, auto, required, or {"type": "function", "function": {"name": "…"}}',
    )


ToolChoiceField = Annotated[ToolChoice, BeforeValidator(_tool_choice)]
