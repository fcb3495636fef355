"""Chat templates: a list of messages in, the prompt as text and token ids out.

Boundary: renders and encodes. It knows no history and no model.

Control tokens come from the template alone. What looks like one in a message must stay text, yet a
template takes its messages apart (trims them, splits them at ``</think>``, escapes them as JSON),
so they have to be in place while it runs. Messages are therefore rendered with a *mark*, a string
nobody can guess, after each character of theirs that begins a control token and before each that
ends one. No control token can then begin or end in a message. Encoding takes the marks out again
after the control tokens were found.
"""

# ruff: noqa: ANN401 (messages hold whatever JSON holds)
from __future__ import annotations

import datetime
import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jinja2 import TemplateError, nodes

from maglio.errors import ChatTemplateError, InvalidArgumentError
from maglio.text.sandbox import MAX_UNITS, TemplateEnvironment, TemplateLimitError
from maglio.text.tokenizer import Tokenizer

MAX_SOURCE = 1 << 18
"""Most characters of a template."""

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

    Bounds: 256 Ki characters of source; and for a render five seconds, and a budget of 64 Mi units
    that every character written and every turn of a loop spends.

    Args:
        source: Jinja source, from ``tokenizer.chat_template`` of the model file.
        tokenizer: the model's; says what a control token is.

    Raises:
        ChatTemplateError: the template is too long or not valid.
    """

    def __init__(self, source: str | None, tokenizer: Tokenizer) -> None:
        self.source = FALLBACK if source is None else source
        self.is_fallback = source is None
        self._tokenizer = tokenizer
        if len(self.source) > MAX_SOURCE:
            raise ChatTemplateError(
                f"the chat template has {len(self.source)} characters, more than {MAX_SOURCE}"
            )
        self._environment = TemplateEnvironment()
        self._environment.filters["tojson"] = _to_json
        self._environment.globals.update(raise_exception=_raise, strftime_now=_strftime_now)
        try:
            self._template = self._environment.from_string(self.source)
            literals = _literals(self._environment, self.source)
        except (TemplateError, TemplateLimitError, RecursionError, SyntaxError) as error:
            raise ChatTemplateError(f"the chat template is not valid: {_told(error)}") from error
        self._marker = _Marker(tokenizer.control_tokens, literals)

    @property
    def bos_text(self) -> str:
        """How a template spells the BOS token; empty if there is none."""
        return self._name(self._tokenizer.bos_id)

    def mark(self, text: str) -> str:
        """Return ``text`` as it stands in a render: no control token can be found in it."""
        return self._marker.mark(text)

    def unmark(self, text: str) -> str:
        """Return a render as people may read it."""
        return text.replace(self._marker.mark_text, "")

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """Return the prompt, with marks; :meth:`encode` turns it into ids.

        Args:
            messages: the conversation.
            tools: descriptions of the tools that the model may call.
            add_generation_prompt: whether to begin the assistant's next message.
            variables: more of what the template reads, such as ``enable_thinking``.

        Raises:
            InvalidArgumentError: a message is not a mapping with a role.
            ChatTemplateError: the template failed, refused the messages, or went over a bound.
        """
        values = {
            "bos_token": self.bos_text,
            "eos_token": self._name(self._tokenizer.eos_id),
            "documents": None,
            **self._marked(dict(variables or {})),
            "messages": [self._message(message) for message in messages],
            "tools": None if tools is None else self._marked(list(tools)),
            "add_generation_prompt": add_generation_prompt,
        }
        self._environment.open_budget()
        try:
            return self._template.render(values)
        except TemplateRefusal as refusal:
            problem = f"refuses this: {refusal}"
        except TemplateLimitError as error:
            problem = f"was stopped: {error}"
        except RecursionError:
            problem = "was stopped: it calls itself too deeply"
        except Exception as error:  # a template can make any operation of Python fail
            problem = f"failed: {_told(error)}"
        raise ChatTemplateError(f"the chat template {self.unmark(problem)}")

    def encode(self, rendered: str, *, continues: bool = False) -> list[int]:
        """Return the token ids of a render, or of the rest of one that ``continues`` other ids.

        There is one BOS token where the model wants one, be it the template's or ours.
        """
        ids: list[int] = []
        end = 0
        for found in self._marker.control.finditer(rendered):
            ids += self._plain(rendered[end : found.start()])
            ids.append(self._marker.ids[found.group()])
            end = found.end()
        ids += self._plain(rendered[end:])
        bos = self._tokenizer.bos_id
        if not continues and self._tokenizer.add_bos and bos is not None and ids[:1] != [bos]:
            ids.insert(0, bos)
        return ids

    def begins_with_control(self, rendered: str) -> bool:
        """Whether a control token comes first."""
        return self._marker.control.match(rendered) is not None

    def _plain(self, text: str) -> list[int]:
        text = self.unmark(text)
        return self._tokenizer.encode(text, add_special=False) if text else []

    def _name(self, token: int | None) -> str:
        return (
            "" if token is None else self._tokenizer.token_bytes(token).decode("utf-8", "replace")
        )

    def _message(self, message: Message) -> dict[str, Any]:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise InvalidArgumentError(
                f"a message must be a mapping with a role, not {message!r:.99}"
            )
        # The role is part of the format: templates compare it and may build a token from it.
        role = message["role"]
        if not re.fullmatch(r"[A-Za-z][\w-]{0,31}", role):
            raise InvalidArgumentError(
                f"role is {role!r}, must be a word such as user or assistant"
            )
        rest = {key: value for key, value in message.items() if key != "role"}
        return {"role": role, **self._marked(rest)}

    def _marked(self, value: Any) -> Any:
        """Return a plain copy of JSON-like data with all its texts marked."""
        if isinstance(value, str):
            return self.mark(str(value))
        if isinstance(value, Mapping):
            return {str(key): self._marked(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._marked(item) for item in value]
        if value is None or isinstance(value, (bool, int, float)):
            return value
        raise InvalidArgumentError(
            f"messages hold a {type(value).__name__}; they can hold texts, numbers, lists and "
            "mappings"
        )


class _Marker:
    """Keeps control tokens out of marked text, and finds them in the rest.

    A string that the template itself looks for, such as ``</think>``, is left as it is where it
    takes no part in any control token.
    """

    def __init__(self, control_tokens: Mapping[str, int], literals: Iterable[str]) -> None:
        names = sorted(control_tokens, key=len, reverse=True)
        nothing = r"(?!)"
        self.ids = control_tokens
        self.control = re.compile("|".join(map(re.escape, names)) or nothing)
        # Four characters of the supplementary private use area: 2**64 possibilities.
        self.mark_text = "".join(chr(0xF0000 + secrets.randbelow(0xFFFE)) for _ in range(4))
        begins = {name[0] for name in names}
        ends = {name[-1] for name in names}
        kept = sorted({x for x in literals if len(x) > 1 and _is_apart(x, names)}, key=len)
        self._edges = re.compile(
            "|".join(
                [
                    *(re.escape(text) for text in reversed(kept)),
                    *(f"(?P<both>[{_characters(both)}])" for both in [begins & ends] if both),
                    *(f"(?P<begin>[{_characters(one)}])" for one in [begins - ends] if one),
                    *(f"(?P<end>[{_characters(one)}])" for one in [ends - begins] if one),
                ]
            )
            or nothing
        )

    def mark(self, text: str) -> str:
        if self.mark_text in text:
            raise InvalidArgumentError("a message holds the secret mark of its chat template")
        return self._edges.sub(self._mark_edge, text)

    def _mark_edge(self, found: re.Match[str]) -> str:
        mark, text = self.mark_text, found.group()
        edges = {"begin": f"{text}{mark}", "end": f"{mark}{text}", "both": f"{mark}{text}{mark}"}
        return edges.get(found.lastgroup or "", text)


def _characters(characters: Iterable[str]) -> str:
    return "".join(map(re.escape, sorted(characters)))


def _is_apart(text: str, names: Iterable[str]) -> bool:
    """Whether no control token holds, is held by, or overlaps ``text``."""
    return not any(
        name in text
        or text in name
        or any(text.startswith(name[i:]) or text.endswith(name[:-i]) for i in range(1, len(name)))
        for name in names
    )


def _literals(environment: TemplateEnvironment, source: str) -> set[str]:
    """Return the strings that a template names in its expressions."""
    found = super(TemplateEnvironment, environment)._parse(source, None, None)
    return {
        node.value
        for node in found.find_all(nodes.Const)
        if isinstance(node.value, str) and len(node.value) <= 64
    }


class TemplateRefusal(Exception):  # noqa: N818 (not an error of ours: the template's verdict)
    """What a template says with ``raise_exception``."""


def _raise(message: object) -> None:
    raise TemplateRefusal(str(message)[:500])


def _strftime_now(format_: object) -> str:
    if not isinstance(format_, str) or len(format_) > 200:
        raise TemplateLimitError("it asks for the time in a format that is no short text")
    return datetime.datetime.now().strftime(format_)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Write JSON without escaping HTML, with the arguments that templates pass."""
    if isinstance(indent, int) and not 0 <= indent <= 16:
        raise TemplateLimitError(f"it indents JSON by {indent}")
    text = json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )
    if len(text) > MAX_UNITS:
        raise TemplateLimitError("it writes too much")
    return text


def _told(error: BaseException) -> str:
    return f"{str(error).splitlines()[0] if str(error) else type(error).__name__:.500}"
