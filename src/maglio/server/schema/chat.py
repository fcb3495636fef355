"""The body of ``/v1/chat/completions``.

Boundary: one model. Other dialects build theirs as this one, with :func:`read`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from maglio.server import limits
from maglio.server.schema.formats import ResponseFormat
from maglio.server.schema.generating import GeneratingBody, MaxTokens
from maglio.server.schema.messages import Message, Tool, ToolChoiceField
from maglio.server.schema.wire import Many

_NO_SOUND = "answers are text"


class ChatRequest(GeneratingBody):
    """A conversation to be answered."""

    refused: ClassVar[Mapping[str, tuple[str, tuple[object, ...]]]] = {
        **GeneratingBody.refused,
        "functions": ("it is deprecated; use tools", ([],)),
        "function_call": ("it is deprecated; use tool_choice", ("none", "auto")),
        "modalities": (_NO_SOUND, (["text"],)),
        "audio": (_NO_SOUND, ()),
        "web_search_options": ("nothing is fetched", ()),
    }

    messages: Annotated[Many[Message], Field(min_length=1)]
    max_completion_tokens: MaxTokens | None = None
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=0, le=limits.LOGPROBS)] | None = None
    response_format: ResponseFormat | None = None
    tools: Annotated[list[Tool], Field(max_length=limits.TOOLS)] | None = None
    tool_choice: ToolChoiceField | None = None
    parallel_tool_calls: bool = True
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    chat_template_kwargs: dict[str, JsonValue] | None = None
    continue_final_message: bool = False

    @field_validator("top_logprobs")
    @classmethod
    def _needs_logprobs(cls, top: int | None, info: ValidationInfo) -> int | None:
        if top is not None and not info.data.get("logprobs"):
            raise PydanticCustomError("top_logprobs", "needs logprobs: true")
        return top
