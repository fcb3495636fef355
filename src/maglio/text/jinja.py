"""Jinja as chat templates expect it: the stock sandbox with what transformers adds to it.

Boundary: knows Jinja and nothing of chat or tokens, and imports nothing of ours, since the
renderer process loads it without the library. The sandbox keeps a template from Python's internals.
It lets a template change lists and mappings, as some build what they say in a list: who renders
gives it copies. It bounds neither time nor memory: who renders a template that is not trusted does
that in a limited process.
"""

# ruff: noqa: ANN401 (a template's values can be anything)
from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import SandboxedEnvironment


class TemplateRefusal(Exception):  # noqa: N818 (not an error of ours: the template's verdict)
    """What a template says with ``raise_exception``."""


class ChatEnvironment(SandboxedEnvironment):
    """The sandbox, set up as transformers sets it up for chat templates, but for changes."""

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", "jinja2.ext.do", _Generation],
        )
        self.filters["tojson"] = _to_json
        self.filters["from_json"] = json.loads  # llama.cpp's, which DeepSeek's later ones use
        # A prompt must not differ from one rendering to the next.
        self.filters["random"] = _first_choice
        self.globals["raise_exception"] = _raise
        del self.globals["lipsum"]


class _Generation(Extension):
    """``{% generation %}``: marks what the assistant says, for training; renders as its body."""

    tags = {"generation"}  # noqa: RUF012 (Jinja's type)

    def parse(self, parser: Parser) -> nodes.Node:
        """Return the body in a scope of its own, as transformers has it."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


def clock(now: datetime) -> Callable[[str], str]:
    """Return ``strftime_now`` for a render at ``now``."""

    def strftime_now(form: str) -> str:
        return now.strftime(form)

    return strftime_now


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Write JSON without escaping HTML, with the arguments that templates pass."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
        default=_listed,
    )


def _listed(value: Any) -> list[Any]:
    """What a filter such as ``map`` yields, as llama.cpp writes it."""
    if isinstance(value, Iterator):
        return list(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _first_choice(items: Sequence[Any]) -> Any:
    return random.Random(0).choice(items)


def _raise(message: object) -> None:
    raise TemplateRefusal(str(message)[:500])
