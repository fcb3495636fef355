"""Pieces of Lark grammars, as llguidance reads them.

Boundary: texts in, texts out; compiles nothing and needs no library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from maglio.errors import GrammarError
from maglio.grammar.schema import check_multiples, without_multiples
from maglio.grammar.value import MAX_SOURCE

ONE_LINE: Mapping[str, Any] = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
}
"""Options that make JSON come on one line, as ``json.dumps`` writes it."""

_MOST_WRITTEN = 16 * MAX_SOURCE
"""Most characters of rules, those that are written again included."""


def pattern(text: str) -> str:
    """Return a regular expression, without slashes, that matches a text and nothing else."""
    return "".join(c if c.isascii() and c.isalnum() else f"\\x{{{ord(c):x}}}" for c in text)


def literal(text: str) -> str:
    """Return an expression that matches a text and nothing else."""
    return f"/{pattern(text)}/" if text else '""'


def json_value(schema: Mapping[str, Any], *, lenient: bool) -> str:
    """Return an expression for a JSON value on one line.

    Args:
        schema: what it has to be.
        lenient: whether what cannot be expressed is left out, rather than refused.

    Raises:
        GrammarError: its numbers are too large (:mod:`maglio.grammar.schema`).
    """
    try:
        check_multiples(schema)
    except GrammarError:
        if not lenient:
            raise
        schema = without_multiples(schema)
    options = {"x-guidance": {**ONE_LINE, "lenient": lenient}}
    return f"%json {json.dumps({**schema, **options})}"


class Rules:
    """A grammar that is being written.

    Its methods raise :class:`~maglio.errors.GrammarError` when far more is written than a grammar
    may have, since schemas may ask for more than there is memory and time for.

    Args:
        control: ids of control tokens, by their names.
    """

    def __init__(self, control: Mapping[str, int]) -> None:
        self._control = control
        names = sorted(filter(None, control), key=len, reverse=True)
        self._names = re.compile("|".join(map(re.escape, names)) or "(?!)")
        self._lines: list[str] = []
        self._made: dict[str, str] = {}
        self._named: set[str] = set()
        self._written = 0

    def rule(self, body: str) -> str:
        """Add a rule and return its name; the same body is the same rule."""
        self._count(body)
        if body not in self._made:
            self._made[body] = f"r{len(self._made)}"
            self._lines.append(f"{self._made[body]}: {body}")
        return self._made[body]

    def has(self, name: str) -> bool:
        """Whether :meth:`named` has added a rule of this name."""
        return name in self._named

    def named(self, name: str, body: str) -> None:
        """Add a rule that may name itself."""
        self._count(body)
        self._named.add(name)
        self._lines.append(f"{name}: {body}")

    def starts_with_control(self, text: str) -> bool:
        """Whether a control token comes first in a text."""
        return self._names.match(text) is not None

    def spelled(self, text: str) -> str:
        """Return an expression for a text in which control tokens are what they are named."""
        parts: list[str] = []
        at = 0
        for found in self._names.finditer(text):
            if found.start() > at:
                parts.append(literal(text[at : found.start()]))
            parts.append(f"<[{self._control[found[0]]}]>")
            at = found.end()
        if at < len(text):
            parts.append(literal(text[at:]))
        return " ".join(parts)

    def text_to(self, end: str, *, unless: str = "") -> str:
        """Return an expression for any text up to the first ``end``, and that.

        Args:
            end: where the text ends, which is not white space alone. If there are control tokens
                in it, the text ends at the first of them.
            unless: what the text does not begin with.
        """
        found = self._names.search(end)
        head = end if found is None else end[: found.start()]
        rest = self.spelled(end[len(head) :])
        if not head.strip():
            return f"{self.text(unless=unless)} {rest}"
        name = f"lazy{len(self._lines)}"
        self._lines.append(f"{name.upper()}: /(?s:.*){pattern(head)}/{_but(unless)}")
        self._lines.append(f"{name}[lazy]: {name.upper()}")
        return f"{name} {rest}".strip()

    def text(self, *, unless: str = "") -> str:
        """Return an expression for any text, or none, without control tokens.

        Args:
            unless: what the text does not begin with.
        """
        if not unless:
            return "/(?s:.+)/?"
        name = f"TEXT{len(self._lines)}"
        self._lines.append(f"{name}: /(?s:.+)/{_but(unless)}")
        return f"{name}?"

    def _count(self, body: str) -> None:
        self._written += len(body)
        if self._written > _MOST_WRITTEN:
            raise GrammarError(
                f"the grammar of the tools is longer than {MAX_SOURCE} bytes; give fewer tools, or "
                "smaller schemas"
            )

    def grammar(self, start: str) -> str:
        """Return the whole grammar."""
        return "\n".join([f"start: {start}", *self._lines])


def _but(unless: str) -> str:
    return f" & ~/{pattern(unless)}(?s:.*)/" if unless else ""
