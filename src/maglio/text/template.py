"""Chat templates: a list of messages in, the prompt as text and token ids out.

Boundary: what callers use. Rendering, and telling the template's control tokens from what looks
like one in a message, are modules of their own; this knows no history and no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Any

from maglio.errors import ChatTemplateError, InvalidArgumentError
from maglio.text import renderer
from maglio.text.control import ControlNames, Found
from maglio.text.given import Given
from maglio.text.known_templates import is_known
from maglio.text.prompt_text import PromptText
from maglio.text.rendering import RenderError, Rendering, RenderRequest, render
from maglio.text.stand_ins import StandIns, characters_of, free_base
from maglio.text.tokenizer import Tokenizer

_MOST_HERE = 512
"""Most messages that a known template is given without a limit on its time. Some look back through
all messages at each."""
MAX_SOURCE = 1 << 18
"""Most characters of a template."""
BASE_OUTPUT = 1 << 19
OUTPUT_PER_INPUT = 8

DEFAULT = "default"
TOOL_USE = "tool_use"

Message = Mapping[str, Any]
"""``role``, ``content``, and whatever else the template reads, such as ``tool_calls``."""

# ChatML, the commonest format; models without a template have mostly seen something like it.
FALLBACK_END = "<|im_end|>"
FALLBACK = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class ChatTemplate:
    """The template of a model, or ChatML for a model without one.

    A template that is not on the list of known ones is compiled and rendered in a process of its
    own, with limits on memory, time and output that grow with the conversation; so its faults show
    when it is first rendered.

    Args:
        source: Jinja source, from ``tokenizer.chat_template`` of the model file; or several, by
            name: ``default``, ``tool_use``, and others.
        tokenizer: the model's; says what a control token is.

    Attributes:
        tokenizer: the same.
        sources: the templates by name, with ChatML where there is no default one.
        is_fallback: whether there is none.

    Raises:
        ChatTemplateError: a template is too long.
    """

    def __init__(self, source: str | Mapping[str, str] | None, tokenizer: Tokenizer) -> None:
        named = {DEFAULT: source} if isinstance(source, str) else dict(source or {})
        self.is_fallback = DEFAULT not in named
        self.sources: Mapping[str, str] = {DEFAULT: FALLBACK, **named}
        for name, text in self.sources.items():
            if len(text) > MAX_SOURCE:
                raise ChatTemplateError(
                    f"the chat template {name!r} has {len(text)} characters, more than "
                    f"{MAX_SOURCE}; use a model file with a shorter one"
                )
        self.tokenizer = tokenizer
        self._own = {
            "bos_token": self._name(tokenizer.bos_id),
            "eos_token": self._name(tokenizer.eos_id),
            "unk_token": self._name(tokenizer.unk_id),
            "pad_token": self._name(tokenizer.pad_id),
        }
        self._pieces: dict[str, tuple[str, ...]] = {}

    @property
    def bos_text(self) -> str:
        """How a template spells the BOS token; empty if there is none."""
        return self._own["bos_token"]

    def check_name(self, name: str) -> None:
        """Raise :class:`InvalidArgumentError` where there is no template of this name."""
        if not isinstance(name, str) or name not in self.sources:
            raise InvalidArgumentError(
                f"chat_template is {name!r:.80}, must be the name of one of the model's templates: "
                f"{', '.join(self.sources):.400}"
            )

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        variables: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> PromptText:
        """Return the prompt; :meth:`encode` turns it into ids.

        Args:
            messages: the conversation.
            tools: descriptions of the tools that the model may call.
            add_generation_prompt: whether to begin the assistant's next message.
            variables: more of what the template reads, such as ``enable_thinking``.
            name: which template; when ``None``, the one for tools where there are both, or else
                the default one.

        Raises:
            InvalidArgumentError: there is no template of this name, or a message is not a mapping
                with a role, or holds what no JSON could.
            ChatTemplateError: the template is not valid, failed, refused the messages, or went
                over a limit.
        """
        given = Given()
        values = {
            "documents": None,
            **given.copy(dict(variables or {})),
            "messages": given.messages(messages),
            "tools": None if tools is None else given.copy(list(tools)),
            "add_generation_prompt": add_generation_prompt,
        }
        if name is None:
            name = TOOL_USE if tools and TOOL_USE in self.sources else DEFAULT
        self.check_name(name)
        source = self.sources[name]
        request = RenderRequest(
            source=source,
            values=values,
            own=self._own,
            pieces=(),
            base=0,
            now=_now(),
            max_output=BASE_OUTPUT + OUTPUT_PER_INPUT * given.size,
        )
        pieces = self._pieces_of(source)
        text, found = self._render(request, pieces, given)
        if found.doubtful:
            finer = tuple(sorted({*pieces, *"".join(found.doubtful)}))
            text, found = self._render(request, finer, given)
        return PromptText(text, found.control)

    def _render(
        self, request: RenderRequest, pieces: tuple[str, ...], given: Given
    ) -> tuple[str, Found]:
        base = free_base(len(characters_of(pieces)), (request.source, *pieces, *given.texts))
        if base is None:
            raise InvalidArgumentError(
                "the messages hold nearly every private-use character, and the template needs "
                "some that they do not hold; leave some out"
            )
        rendering = _rendered(replace(request, pieces=pieces, base=base))
        stand_ins = StandIns(pieces, base)
        found = self._names.find(rendering, stand_ins, given.roles)
        return rendering.plain, found

    def encode(self, prompt: PromptText, *, continues: bool = False) -> list[int]:
        """Return the token ids of a render, or of the rest of one that ``continues`` other ids.

        There is one BOS token where the model wants one, be it the template's or ours.
        """
        ids: list[int] = []
        for text, is_control in prompt.pieces():
            if is_control:
                ids.append(self.tokenizer.control_tokens[text])
            else:
                ids += self.tokenizer.encode(text, add_special=False)
        bos = self.tokenizer.bos_id
        if not continues and self.tokenizer.add_bos and bos is not None and ids[:1] != [bos]:
            ids.insert(0, bos)
        return ids

    @cached_property
    def _names(self) -> ControlNames:
        return ControlNames(self.tokenizer.control_tokens)

    def _pieces_of(self, source: str) -> tuple[str, ...]:
        if source not in self._pieces:
            self._pieces[source] = self._names.pieces(source, self._own.values())
        return self._pieces[source]

    def _name(self, token: int | None) -> str:
        return "" if token is None else self.tokenizer.token_bytes(token).decode("utf-8", "replace")


def _now() -> str:
    return datetime.now().isoformat()


def _rendered(request: RenderRequest) -> Rendering:
    try:
        if is_known(request.source) and len(request.values["messages"]) <= _MOST_HERE:
            return render(request)
        return renderer.shared.render(request)
    except RenderError as error:
        raise ChatTemplateError(f"the chat template {error}") from None
