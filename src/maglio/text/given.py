"""What a template is given: plain copies of a caller's messages, and all texts in them.

Boundary: checks and copies JSON-like data. Knows no template.
"""

# ruff: noqa: ANN401 (messages hold whatever JSON holds)
from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from maglio.errors import InvalidArgumentError

MAX_VALUES = 1 << 20
"""Most values in one conversation, counting a shared one as often as it occurs."""
MAX_DEPTH = 64
MAX_BITS = 4096
"""Largest number, in bits."""

_ROLE = re.compile(r"[A-Za-z][\w-]{0,31}")


class Given:
    """Copies values, and keeps count.

    Attributes:
        texts: every text that was copied, mapping keys included, roles excluded.
        roles: the roles of the messages.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.roles: set[str] = set()
        self._n_values = 0

    @property
    def size(self) -> int:
        """Characters and values."""
        return sum(map(len, self.texts)) + 16 * self._n_values

    def messages(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Copy the messages of a conversation."""
        return [self._message(message) for message in messages]

    def _message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise InvalidArgumentError(
                f"a message is {message!r:.99}; it must be a mapping with a role, such as "
                '{"role": "user", "content": "Hello"}'
            )
        # The role is part of the format: templates compare it and may build a token from it.
        role = message["role"]
        if not _ROLE.fullmatch(role):
            raise InvalidArgumentError(
                f"role is {role!r:.99}, must be a word such as user or assistant"
            )
        self.roles.add(role)
        rest = {key: value for key, value in message.items() if key != "role"}
        return {"role": role, **self.copy(rest)}

    def copy(self, value: Any, depth: int = 0) -> Any:
        """Copy a value."""
        self._n_values += 1
        if self._n_values > MAX_VALUES or depth > MAX_DEPTH:
            raise InvalidArgumentError(
                f"messages hold more than {MAX_VALUES} values, or lists and mappings more than "
                f"{MAX_DEPTH} deep; leave out what the template does not read"
            )
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return {self._text(str(key)): self.copy(item, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.copy(item, depth + 1) for item in value]
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise InvalidArgumentError(
                f"messages hold a number of {value.bit_length()} bits; the limit is {MAX_BITS}, "
                "so give it as a text"
            )
        if value is None or isinstance(value, (bool, int, float)):
            return value
        raise InvalidArgumentError(
            f"messages hold a {type(value).__name__}; they can hold texts, numbers, lists and "
            "mappings"
        )

    def _text(self, text: str) -> str:
        self.texts.append(text)
        return str(text)
