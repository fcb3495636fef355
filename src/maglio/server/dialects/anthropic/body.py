"""Bodies of Anthropic's Messages API.

Boundary: shapes. Blocks may have more names than those here, such as ``cache_control``: every
prompt is looked up in the prefix cache, so they change nothing.
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
from maglio.server.schema.texts import StopText
from maglio.server.schema.wire import Body, Many, Open

_ON_THE_SERVER = "nothing but the model runs here; clients run tools"


class TextBlock(Open):
    """A text."""

    type: Literal["text"]
    text: str


class ThinkingBlock(Open):
    """What the assistant thought."""

    type: Literal["thinking"]
    thinking: str


class RedactedBlock(Open):
    """Thinking that only the server that wrote it can read."""

    type: Literal["redacted_thinking"]


class ToolUseBlock(Open):
    """A call that the assistant made."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, JsonValue]


class ToolReferenceBlock(Open):
    """A tool that was found."""

    type: Literal["tool_reference"]
    tool_name: str


class SearchResultBlock(Open):
    """A text that was found."""

    type: Literal["search_result"]
    title: str
    content: Many[TextBlock]


class PlainSource(Open):
    """The text of a document."""

    type: Literal["text"]
    data: str


class DocumentBlock(Open):
    """A document; only texts are."""

    type: Literal["document"]
    source: PlainSource
    title: str | None = None


class SystemBlock(Open):
    """Instructions in the middle of a conversation."""

    type: Literal["mid_conv_system"]
    content: Many[TextBlock]


def _blocks(content: Any) -> Any:  # noqa: ANN401  # whatever JSON holds
    """A text alone is one block."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _readable(block: Any) -> Any:  # noqa: ANN401
    kind = block.get("type") if isinstance(block, Mapping) else None
    if kind == "image" or (kind == "document" and _source_of(block) != "text"):
        raise PydanticCustomError(
            "content_media",
            "is of type {kind}: images and files are not supported, only text",
            {"kind": kind},
        )
    return block


def _source_of(document: Mapping[str, Any]) -> object:
    source = document.get("source")
    return source.get("type") if isinstance(source, Mapping) else None


ResultBlock = Annotated[
    Annotated[
        TextBlock | ToolReferenceBlock | SearchResultBlock | DocumentBlock,
        Field(discriminator="type"),
    ],
    BeforeValidator(_readable),
]


class ToolResultBlock(Open):
    """What a call gave."""

    type: Literal["tool_result"]
    tool_use_id: str
    content: Annotated[Many[ResultBlock], BeforeValidator(_blocks)] = Field(default_factory=list)
    is_error: bool = False


Block = Annotated[
    Annotated[
        TextBlock
        | ThinkingBlock
        | RedactedBlock
        | ToolUseBlock
        | ToolResultBlock
        | SearchResultBlock
        | DocumentBlock
        | SystemBlock,
        Field(discriminator="type"),
    ],
    BeforeValidator(_readable),
]


class Turn(Open):
    """One message."""

    role: Literal["user", "assistant", "system"]
    content: Annotated[Many[Block], BeforeValidator(_blocks)]


class Tool(Open):
    """A tool that the client runs."""

    name: ToolName
    description: str | None = None
    input_schema: dict[str, JsonValue]


class ToolChoice(Open):
    """Whether, and what, the model must call."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool = False


class Thinking(Open):
    """Whether the model thinks first; its budget is the model's own business."""

    type: Literal["enabled", "disabled", "adaptive", "between_tools"]


class OutputFormat(Open):
    """What the answer must look like."""

    type: Literal["json_schema"]
    json_schema: dict[str, JsonValue] | bool = Field(alias="schema")


class OutputConfig(Open):
    """How much to think, and what the answer must look like."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: OutputFormat | None = None


def _client_tool(tool: Any) -> Any:  # noqa: ANN401
    kind = tool.get("type") if isinstance(tool, Mapping) else None
    if kind not in (None, "custom"):
        raise PydanticCustomError(
            "tool_type",
            "is a tool of type {kind}, which Anthropic runs or describes; give one with an "
            "input_schema",
            {"kind": str(kind)[:100]},
        )
    return tool


class CountRequest(Body):
    """A conversation whose tokens are counted."""

    without_effect: ClassVar[frozenset[str]] = frozenset(
        {
            "cache_control",
            "context_management",
            "diagnostics",
            "fallback_credit_token",
            "fallbacks",
            "inference_geo",
            "metadata",
            "service_tier",
            "speed",
            "user_profile_id",
            "workspace_id",
        }
    )
    refused: ClassVar[Mapping[str, tuple[str, tuple[object, ...]]]] = {
        "container": (_ON_THE_SERVER, ()),
        "mcp_servers": (_ON_THE_SERVER, ([],)),
    }

    model: str
    messages: Annotated[Many[Turn], Field(min_length=1)]
    system: Annotated[Many[TextBlock], BeforeValidator(_blocks)] = Field(default_factory=list)
    tools: Annotated[
        list[Annotated[Tool, BeforeValidator(_client_tool)]], Field(max_length=limits.TOOLS)
    ] = Field(default_factory=list)
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None


class MessagesRequest(CountRequest):
    """A conversation to be answered."""

    max_tokens: Annotated[int, Field(ge=1, le=MAX_TOKEN_ID)]
    stream: bool = False
    stop_sequences: Annotated[list[StopText], Field(max_length=limits.STOPS)] | None = None
    temperature: Share | None = None
    top_p: Share | None = None
    top_k: Annotated[int, Field(ge=0, le=MAX_TOKEN_ID)] | None = None
    # This server's own.
    speculative: SpeculativeField | None = None
    references: References | None = None
