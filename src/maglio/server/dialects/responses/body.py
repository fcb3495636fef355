"""Bodies of the Responses API.

Boundary: shapes. Items and tools may have more names than those here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, JsonValue
from pydantic_core import PydanticCustomError

from maglio.checks import MAX_TOKEN_ID
from maglio.server import limits
from maglio.server.schema.drafting import References, SpeculativeField
from maglio.server.schema.messages import ToolName
from maglio.server.schema.sampling import Share
from maglio.server.schema.texts import Content
from maglio.server.schema.wire import Body, Many, Open, Wire

_NOT_STORED = "nothing is stored here; send the whole conversation as input"


class MessageItem(Open):
    """Somebody said something."""

    type: Literal["message"]
    role: Literal["system", "developer", "user", "assistant"]
    content: Content


class ReasoningPart(Open):
    """A piece of thinking."""

    text: str


class ReasoningItem(Open):
    """What the assistant thought, in one of two forms
    (:mod:`maglio.server.dialects.responses.reasoning`)."""

    type: Literal["reasoning"]
    content: Many[ReasoningPart] | None = None
    encrypted_content: str | None = None


class CallItem(Open):
    """A call that the assistant made."""

    type: Literal["function_call"]
    call_id: str
    name: str
    namespace: str | None = None
    arguments: str


class CustomCallItem(Open):
    """A call whose argument is a text."""

    type: Literal["custom_tool_call"]
    call_id: str
    name: str
    input: str


class OutputItem(Open):
    """What a call gave."""

    type: Literal["function_call_output", "custom_tool_call_output"]
    call_id: str
    output: Content


class PassedItem(Open):
    """A note of what a client or OpenAI's server did; it says nothing to the model."""

    type: Literal["web_search_call", "ghost_snapshot", "compaction_trigger"]


def _typed(item: Any) -> Any:  # noqa: ANN401  # whatever JSON holds
    """An item with its type, which messages may leave out."""
    if isinstance(item, Mapping) and "role" in item and "type" not in item:
        return {"type": "message", **item}
    return item


Item = Annotated[
    Annotated[
        MessageItem | ReasoningItem | CallItem | CustomCallItem | OutputItem | PassedItem,
        Field(discriminator="type"),
    ],
    BeforeValidator(_typed),
]


class FunctionTool(Open):
    """A function that the client runs."""

    type: Literal["function"]
    name: ToolName
    description: str | None = None
    parameters: dict[str, JsonValue] | None = None


class Namespace(Open):
    """Functions that belong together; their names are told with that of the namespace."""

    type: Literal["namespace"]
    name: ToolName
    tools: Many[FunctionTool]

    @property
    def functions(self) -> list[FunctionTool]:
        """The functions as the model is told of them."""
        return [
            tool.model_copy(update={"name": joined_name(self.name, tool.name)})
            for tool in self.tools
        ]


def joined_name(namespace: str | None, name: str) -> str:
    """The name of a function in a namespace, as the model sees it."""
    return name if namespace is None else f"{namespace}.{name}"


def _known_tools(tools: Any) -> Any:  # noqa: ANN401
    """The tools that a client runs; those that OpenAI would run are left out, and never called."""
    if not isinstance(tools, list):
        return tools
    return [
        tool
        for tool in map(_with_known_members, tools)
        if not isinstance(tool, Mapping) or tool.get("type") in ("function", "namespace")
    ]


def _with_known_members(tool: Any) -> Any:  # noqa: ANN401
    if not isinstance(tool, Mapping) or tool.get("type") != "namespace":
        return tool
    return {**tool, "tools": _known_tools(tool.get("tools"))}


Tools = Annotated[
    list[Annotated[FunctionTool | Namespace, Field(discriminator="type")]],
    BeforeValidator(_known_tools),
    Field(max_length=limits.TOOLS),
]


class Reasoning(Open):
    """How much to think."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None


class TextFormat(Open):
    """What the answer must look like."""

    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    json_schema: dict[str, JsonValue] | None = Field(default=None, alias="schema")


class Text(Open):
    """How the answer is written. ``verbosity`` has no meaning to the models that run here."""

    format: TextFormat | None = None


class StreamOptions(Wire):
    """What a stream tells besides text."""

    include_obfuscation: bool | None = None


def _input(given: Any) -> Any:  # noqa: ANN401
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    if not isinstance(given, list):
        raise PydanticCustomError("input_type", "must be a text or a list of items")
    return given


class ResponsesRequest(Body):
    """A conversation to be answered."""

    without_effect: ClassVar[frozenset[str]] = frozenset(
        {
            "client_metadata",
            "max_tool_calls",  # of tools that OpenAI would run
            "metadata",
            "prompt_cache_key",
            "prompt_cache_retention",
            "safety_identifier",
            "service_tier",
            "store",
            "truncation",
            "user",
        }
    )
    refused: ClassVar[Mapping[str, tuple[str, tuple[object, ...]]]] = {
        "background": (_NOT_STORED, (False,)),
        "conversation": (_NOT_STORED, ()),
        "previous_response_id": (_NOT_STORED, ("",)),
        "prompt": ("no prompts are kept here; send the texts", ()),
    }

    model: str | None = None
    input: Annotated[Many[Item], BeforeValidator(_input)] = Field(default_factory=list)
    instructions: str | None = None
    tools: Tools = Field(default_factory=list)
    tool_choice: JsonValue = "auto"
    parallel_tool_calls: bool = True
    reasoning: Reasoning | None = None
    text: Text | None = None
    include: Many[str] = Field(default_factory=list)
    max_output_tokens: Annotated[int, Field(ge=1, le=MAX_TOKEN_ID)] | None = None
    temperature: Annotated[float, Field(ge=0.0, le=2.0)] | None = None
    top_p: Share | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=limits.LOGPROBS)] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    # This server's own.
    seed: int | None = None
    speculative: SpeculativeField | None = None
    references: References | None = None

    @property
    def functions(self) -> list[FunctionTool]:
        """The functions that the model is told of."""
        return [
            function
            for tool in self.tools
            for function in (tool.functions if isinstance(tool, Namespace) else [tool])
        ]

    @property
    def namespaces(self) -> dict[str, tuple[str, str]]:
        """Namespace and name of each function that has one, by the name that the model sees."""
        return {
            joined_name(tool.name, function.name): (tool.name, function.name)
            for tool in self.tools
            if isinstance(tool, Namespace)
            for function in tool.tools
        }

    @property
    def wants_logprobs(self) -> bool:
        """Whether the answer comes with log-probabilities."""
        return "message.output_text.logprobs" in self.include
