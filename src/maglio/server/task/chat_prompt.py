"""From a conversation to the prompt: as the model's chat template writes it.

Boundary: the same body gives the same ids, whatever the server has seen before. Rendering may take
a while; endpoints call it in a thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from maglio.errors import ContextFullError
from maglio.server.errors import ApiError
from maglio.server.schema.chat import ChatRequest
from maglio.server.schema.messages import Message
from maglio.server.state import ServerState
from maglio.text.prompt_text import PromptText


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A conversation as the model reads it.

    Attributes:
        text: the text, control tokens included.
        ids: the token ids.
        tools: descriptions of the tools that may be called.
        reasoning: whether it has begun a thought.
    """

    text: str
    ids: list[int]
    tools: tuple[dict[str, Any], ...]
    reasoning: bool


def chat_prompt(body: ChatRequest, state: ServerState) -> ChatPrompt:
    """The prompt of a conversation.

    Raises:
        ApiError: the messages contradict each other.
        ContextFullError: they are sure to be too long.
        ChatTemplateError: the template fails, or refuses the messages.
        InvalidArgumentError: the messages hold what no template can be given.
    """
    _check_count(body, state)
    template, form = state.model.chat_template, state.calls
    messages, rest = list(map(_message, body.messages)), ""
    if body.continue_final_message:
        rest = _taken(messages)
    knows_developer = any("developer" in source for source in template.sources.values())
    for message in messages:
        if message["role"] == "developer" and not knows_developer:
            message["role"] = "system"  # OpenAI's new name for it
    tools = tools_of(body)
    prompt = template.render(
        form.messages(messages, tools),
        tools=list(tools) if tools and form.describes_tools else None,
        variables=_variables(body, state),
        name=state.settings.chat_template,
    ) + PromptText(rest)
    _check_length(prompt.text, state)
    return ChatPrompt(
        prompt.text, template.encode(prompt), tools, form.begins_thinking(prompt.text)
    )


def _taken(messages: list[dict[str, Any]]) -> str:
    """Take the last message, which the assistant has begun, and return its text."""
    last = messages.pop()
    if last["role"] != "assistant":
        raise ApiError(
            "continue_final_message needs a last message of the role assistant; it is of the role "
            f"{last['role']}",
            param="continue_final_message",
            code="invalid_value",
        )
    return str(last["content"])


def tools_of(body: ChatRequest) -> tuple[dict[str, Any], ...]:
    """The tools that the model is told of: none if it must not call any."""
    if not body.tools or (body.tool_choice is not None and body.tool_choice.mode == "none"):
        return ()
    return tuple({"type": "function", **tool.model_dump(exclude_unset=True)} for tool in body.tools)


def _check_count(body: ChatRequest, state: ServerState) -> None:
    """Raise for more messages than can be in a prompt, before a template looks at all of them."""
    n_ctx = state.model.engine.n_ctx
    if len(body.messages) > n_ctx:
        raise ContextFullError(
            f"there are {len(body.messages):,} messages, more than the context of {n_ctx:,} tokens "
            "can hold; send fewer, or start the server with a larger context"
        )


def _check_length(text: str, state: ServerState) -> None:
    """Raise for a prompt that is sure to be too long, before it is encoded."""
    n_ctx = state.model.engine.n_ctx
    fewest = state.model.tokenizer.fewest_tokens(text) if len(text) > n_ctx else 0
    if fewest > n_ctx:
        raise ContextFullError(
            f"the messages have at least {fewest:,} tokens, more than the context of {n_ctx:,}; "
            "shorten them, or start the server with a larger context"
        )


def _message(message: Message) -> dict[str, Any]:
    """A message for the template; what is null is not there, but for the content."""
    given = message.model_dump(exclude_unset=True)
    return {"content": ""} | {name: value for name, value in given.items() if value is not None}


def _variables(body: ChatRequest, state: ServerState) -> dict[str, Any]:
    """What the template reads besides: from the options, the effort, and the request's own."""
    effort: dict[str, Any] = {}
    if body.reasoning_effort is not None:
        thinks = body.reasoning_effort != "none"
        effort = {"enable_thinking": thinks, "thinking": thinks}
        if thinks:
            effort["reasoning_effort"] = body.reasoning_effort
    return {
        **state.settings.template_variables,
        **effort,
        **(body.chat_template_kwargs or {}),
    }
