"""What ``/set`` and ``/unset`` change: names, values as people type them, and defaults.

Boundary: from words to a conversation's properties. Whether a value can work is the library's
business.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from maglio.chat import Conversation
from maglio.cli.sampling_options import bias, order
from maglio.cli.text_options import unescape
from maglio.decode import SamplingParams
from maglio.errors import InvalidArgumentError
from maglio.llama_sampling import RANDOM_SEED, default_breakers, drawn_seed
from maglio.text import Tokenizer

_PARAMS = {
    field.name: field for field in dataclasses.fields(SamplingParams) if field.name != "logit_bias"
}
_SWITCH = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}
_MOST_SHOWN = 12
_SHORT = {"temp": "temperature", "n": "max_tokens", "repeat_last_n": "penalty_last_n"}
_MAX_DIGITS = 20  # of 2^64


class Settings:
    """The settings of a conversation.

    Args:
        chat: the conversation, as it begins: what is then changed can be brought back to this.
        tokenizer: the model's.
    """

    def __init__(self, chat: Conversation, tokenizer: Tokenizer) -> None:
        self._chat = chat
        self._tokenizer = tokenizer
        # What it began with, for /unset.
        self._max_tokens, self._stop, self._on_full = chat.max_tokens, chat.stop, chat.on_full

    def lines(self) -> list[str]:
        """All of them, as they are."""
        chat = self._chat
        stop = " ".join(map(repr, chat.stop)) or "(none)"
        names = (*_PARAMS, "logit_bias")
        sampling = [self._line(name) for name in names]
        return [
            f"max_tokens {chat.max_tokens}",
            f"on_full {chat.on_full}",
            f"stop {stop}",
            *sampling,
        ]

    def set(self, name: str, value: str) -> str:
        """Change one, and return what to say.

        Raises:
            InvalidArgumentError: there is no such setting, or the value cannot work.
        """
        name = _SHORT.get(name, name)
        if name == "max_tokens":
            self._chat.max_tokens = whole(name, value)
        elif name == "on_full":
            self._chat.on_full = value  # type: ignore[assignment]  # checked there
        elif name == "stop":
            self._chat.stop = (*self._stop, unescape(value)) if value else self._stop
        elif name == "logit_bias":
            biases = dict(self._chat.sampling.bias_pairs) | dict([bias(value)])
            self._set_sampling(name, biases)
        else:
            self._set_sampling(name, _value(name, value))
        return self._line(name)

    def unset(self, name: str) -> str:
        """Bring one back to what it is by default, and return what to say.

        Raises:
            InvalidArgumentError: there is no such setting.
        """
        name = _SHORT.get(name, name)
        if name == "max_tokens":
            self._chat.max_tokens = self._max_tokens
        elif name == "on_full":
            self._chat.on_full = self._on_full
        elif name == "stop":
            self._chat.stop = self._stop
        elif name == "logit_bias":
            self._set_sampling(name, ())
        elif name == "system":
            self._chat.system = None
            return "(no system prompt)"
        else:
            default = drawn_seed() if name == "seed" else _field(name).default
            self._set_sampling(name, default)
        return self._line(name)

    def _line(self, name: str) -> str:
        owner = self._chat if hasattr(self._chat, name) else self._chat.sampling
        value = getattr(owner, name)
        if isinstance(value, tuple) and len(value) > _MOST_SHOWN:
            return f"{name} ({len(value)} of them)"
        return f"{name} {value}"

    def _set_sampling(self, name: str, value: object) -> None:
        changes: dict[str, Any] = {name: value}
        before = self._chat.sampling
        if name == "dry_multiplier" and before.dry_multiplier == 0.0 and not before.dry_breakers:
            changes["dry_breakers"] = default_breakers(self._tokenizer)  # as --dry-multiplier has
        self._chat.sampling = dataclasses.replace(self._chat.sampling, **changes)


def whole(name: str, value: str) -> int:
    """A whole number from 0 on.

    Raises:
        InvalidArgumentError: it is something else.
    """
    if not value.isascii() or not value.isdigit() or len(value) > _MAX_DIGITS:
        raise InvalidArgumentError(f"{name} is {value!r:.60}, must be a whole number from 0 on")
    return int(value)


def _field(name: str) -> dataclasses.Field[Any]:
    if name not in _PARAMS:
        known = ", ".join((*_PARAMS, "logit_bias", "system"))
        raise InvalidArgumentError(
            f"there is no setting {name:.40}: it can be max_tokens, on_full, stop or one of {known}"
        )
    return _PARAMS[name]


def _value(name: str, value: str) -> object:
    if name == "order":
        return order(value)
    if name == "dry_breakers":
        return tuple(whole(name, word) for word in value.replace(",", " ").split())
    if name == "ignore_eos":
        return _SWITCH.get(value.lower(), value)  # what is neither is refused there
    return _number(name, value)


def _number(name: str, value: str) -> int | float:
    field = _field(name)
    try:
        if len(value) > _MAX_DIGITS:
            raise ValueError
        number = int(value) if field.type == "int" else float(value)
    except ValueError:
        raise InvalidArgumentError(f"/set {name}: {value!r:.60} is not a number") from None
    if name == "seed" and number == RANDOM_SEED:
        return drawn_seed()
    return max(0, number) if name == "top_k" else number
