"""What an answer must be: the grammar that the fields of a body ask for.

Boundary: which grammar, and that there is one at most; compiling it is the model's business.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from maglio.calls import CallFormat
from maglio.grammar import Grammar
from maglio.server.errors import ApiError
from maglio.server.schema.chat import ChatRequest
from maglio.server.schema.formats import ResponseFormat
from maglio.server.schema.generating import GeneratingBody
from maglio.server.schema.messages import ToolChoice
from maglio.server.task.chat_prompt import ChatPrompt


def chat_grammar(body: ChatRequest, prompt: ChatPrompt, form: CallFormat) -> Grammar | None:
    """The grammar of an answer to a conversation, thoughts and calls included.

    Args:
        body: what is asked.
        prompt: what the model reads.
        form: how the model writes thoughts and calls.

    Raises:
        ApiError: the fields contradict each other.
        GrammarError: it is too long.
    """
    asked = grammar_of(body, body.response_format)
    choice = body.tool_choice or ToolChoice(mode="auto")
    if not prompt.tools:
        _check_none(choice)
        return None if asked is None else form.thinking_first(asked, reasoning=prompt.reasoning)
    if asked is not None and asked.kind != "json_schema" and choice.mode == "auto":
        raise ApiError(
            "an answer that keeps to a grammar cannot be one that may call tools; give a JSON "
            "schema, leave out tools, or say with tool_choice whether one must be called "
            "(required) or not (none)",
            param="grammar",
            code="unsupported_parameter",
        )
    if choice.name is not None and choice.name not in _names(prompt):
        raise ApiError(
            f"tool_choice names {choice.name!r:.80}, which is none of the tools: "
            f"{', '.join(_names(prompt)):.400}",
            param="tool_choice",
            code="invalid_value",
        )
    # Where a tool must be called there is no text that could keep to a format.
    return form.grammar(
        prompt.tools,
        choice=choice.name or choice.mode,
        parallel=body.parallel_tool_calls,
        reasoning=prompt.reasoning,
        content=None if asked is None else _schema(asked),
    )


def _schema(grammar: Grammar) -> Mapping[str, Any]:
    """The schema of a grammar that has one; what accepts nothing is a schema too."""
    schema = json.loads(grammar.source) if grammar.kind == "json_schema" else {}
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    return cast("Mapping[str, Any]", schema)


def _check_none(choice: ToolChoice) -> None:
    if choice.mode == "required":
        raise ApiError(
            "tool_choice asks for a call, and there are no tools",
            param="tool_choice",
            code="invalid_value",
        )


def _names(prompt: ChatPrompt) -> list[str]:
    return [tool["function"]["name"] for tool in prompt.tools]


def grammar_of(body: GeneratingBody, form: ResponseFormat | None = None) -> Grammar | None:
    """The grammar of an answer; ``None`` if it may be anything.

    Args:
        body: has llama.cpp's ``grammar`` and ``json_schema``.
        form: OpenAI's ``response_format``, if the body has one.

    Raises:
        ApiError: more than one is asked for.
        GrammarError: it is too long.
    """
    asked: dict[str, Grammar] = {}
    if body.grammar:  # llama.cpp's clients send an empty one for none
        asked["grammar"] = Grammar.gbnf(body.grammar)
    if body.json_schema is not None:
        asked["json_schema"] = Grammar.json_schema(body.json_schema)
    if form is not None and form.type != "text":
        schema = form.schema_document
        asked["response_format"] = (
            Grammar.json_object() if schema is None else Grammar.json_schema(schema)
        )
    if len(asked) > 1:
        raise ApiError(
            f"{' and '.join(asked)} are given; an answer can keep to one of them",
            param=list(asked)[-1],
            code="invalid_value",
        )
    return next(iter(asked.values()), None)
