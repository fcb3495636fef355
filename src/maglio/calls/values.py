"""Grammars of arguments in notations that are not JSON, from a tool's schema.

Boundary: expressions for values; the calls around them are in :mod:`~maglio.calls.rules`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from maglio.calls.tool import Tool
from maglio.calls.typed import is_text, types_of
from maglio.grammar.lark import Rules, json_value, literal

_MAX_DEPTH = 8
_KEY = "/[^\\s:=,<>{}\\[\\]()\"']{1,64}/"

_NUMBER = "/-?(0|[1-9][0-9]{0,18})(\\.[0-9]{1,18})?([eE][+-]?[0-9]{1,3})?/"


class Values(ABC):
    """Writes expressions for the values of one tool.

    Args:
        rules: the grammar that is being written.
        tool: whose arguments they are.
    """

    comma: str
    sorts: bool
    words: Mapping[object, tuple[str, ...]]
    """How ``None``, ``True`` and ``False`` may be written."""

    def __init__(self, rules: Rules, tool: Tool) -> None:
        self._rules = rules
        self._tool = tool

    def members(self, schema: Mapping[str, Any], depth: int = 0) -> str:
        """Return an expression for the members of an object: what may come, in one order."""
        properties = schema.get("properties")
        if not isinstance(properties, Mapping):
            member = f"{self.any_key(depth)} {self.anything()}"
            return f"({member} ({literal(self.comma)} {member})*)?"
        required = schema.get("required")
        required = set(map(str, required)) if isinstance(required, list) else set()
        rest, only = '""', '""'  # what follows a member, and what comes where there was none
        for name in sorted(properties, reverse=True) if self.sorts else reversed(list(properties)):
            member = f"{self.key(str(name), depth)} {self.value(properties[name], depth + 1)}"
            first = f"{member} {rest}"
            later = f"{literal(self.comma)} {member}"
            is_optional = name not in required
            only = self._rules.rule(f"{first} | {only}" if is_optional else first)
            rest = self._rules.rule(f"({later})? {rest}" if is_optional else f"{later} {rest}")
        return only

    def value(self, schema: object, depth: int) -> str:
        """Return an expression for a value."""
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or "$ref" in schema:
            return self.anything()
        named = values_of(schema)
        if named:
            return self._rules.rule(" | ".join(map(self.exactly, named)))
        options = schema.get("anyOf", schema.get("oneOf"))
        if isinstance(options, list) and options:
            each = [self.value(option, depth + 1) for option in options]
            return self._rules.rule(" | ".join(dict.fromkeys(each)))
        kinds = schema.get("type", [])
        kinds = kinds if isinstance(kinds, list) else [kinds]
        each = [self._of_type(kind, schema, depth) for kind in kinds]
        return self._rules.rule(" | ".join(each)) if each else self.anything()

    def _of_type(self, kind: object, schema: Mapping[str, Any], depth: int) -> str:
        if kind == "string":
            return self.string()
        if kind in ("integer", "number"):
            return self.json({**schema, "type": kind})
        if kind == "boolean":
            return self.word(True, False)
        if kind == "null":
            return self.word(None)
        if kind == "array":
            item, comma = self.value(schema.get("items"), depth + 1), literal(self.comma)
            return f'("[" ({item} ({comma} {item})*)? "]")'
        if kind == "object":
            return f'("{{" {self.members(schema, depth + 1)} "}}")'
        return self.anything()

    def json(self, schema: Mapping[str, Any]) -> str:
        """Return the name of a rule for a value that is written as JSON."""
        return self._rules.rule(json_of(self._tool, schema))

    def exactly(self, value: object) -> str:
        """Return an expression for one value."""
        if isinstance(value, str):
            return self.quoted(value)
        if value is None or isinstance(value, bool):
            return self.word(value)
        return literal(str(value)) if isinstance(value, (int, float)) else self.anything()

    def word(self, *values: object) -> str:
        """Return an expression for one of some values that are words."""
        return f"({' | '.join(literal(word) for value in values for word in self.words[value])})"

    def anything(self) -> str:
        """Return the name of a rule for any value."""
        name = "any_value"
        if not self._rules.has(name):
            member, comma = f"{self.any_key(1)} {name}", literal(self.comma)
            self._rules.named(
                name,
                f"{self.string()} | {_NUMBER} | {self.word(None, True, False)}"
                f' | "[" ({name} ({comma} {name})*)? "]"'
                f' | "{{" ({member} ({comma} {member})*)? "}}"',
            )
        return name

    @abstractmethod
    def key(self, name: str, depth: int) -> str:
        """Return an expression for a key and what comes after it; arguments have depth 0."""

    @abstractmethod
    def any_key(self, depth: int) -> str:
        """Return an expression for any key and what comes after it."""

    @abstractmethod
    def string(self) -> str:
        """Return an expression for any string."""

    @abstractmethod
    def quoted(self, text: str) -> str:
        """Return an expression for one string."""


class GemmaValues(Values):
    """Gemma 4's notation: bare keys, strings between tokens that are quotes."""

    comma = ","
    sorts = True
    words: Mapping[object, tuple[str, ...]] = {
        None: ("null", "None"),  # its template writes this one
        True: ("true",),
        False: ("false",),
    }
    _QUOTE = '<|"|>'

    def key(self, name: str, depth: int) -> str:
        """Return an expression for a key and what comes after it."""
        return literal(f"{name}:")

    def any_key(self, depth: int) -> str:
        """Return an expression for any key and what comes after it."""
        return f'{_KEY} ":"'

    def string(self) -> str:
        """Return an expression for any string."""
        text = self._rules.text_to(self._QUOTE)
        return self._rules.rule(f"{self._rules.spelled(self._QUOTE)} {text}")

    def quoted(self, text: str) -> str:
        """Return an expression for one string."""
        quote = self._rules.spelled(self._QUOTE)
        return f"{quote} {literal(text)} {quote}"


class PythonValues(Values):
    """Python's notation, as in the call of a function; JSON is understood too."""

    comma = ", "
    sorts = False
    words: Mapping[object, tuple[str, ...]] = {
        None: ("None", "null"),
        True: ("True", "true"),
        False: ("False", "false"),
    }
    _STRING = "(/'([^'\\\\\\n]|\\\\['\"\\\\nrt])*'/ | /\"([^\"\\\\\\n]|\\\\['\"\\\\nrt])*\"/)"

    def key(self, name: str, depth: int) -> str:
        """Return an expression for a key and what comes after it."""
        return f'{self.quoted(name)} ": "' if depth else literal(f"{name}=")

    def any_key(self, depth: int) -> str:
        """Return an expression for any key and what comes after it."""
        return f'{self._STRING} ": "' if depth else f'{_KEY} "="'

    def string(self) -> str:
        """Return an expression for any string."""
        return self._STRING

    def quoted(self, text: str) -> str:
        """Return an expression for one string."""
        escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
        single, double = (escaped.replace(quote, "\\" + quote) for quote in "'\"")
        alternatives = (f"'{single}'", f'"{double}"')
        return f"({' | '.join(map(literal, alternatives))})"


class TaggedValues:
    """Arguments between tags, as a format's row has them.

    Args:
        rules: the grammar that is being written.
        tool: whose arguments they are.
        tags: what comes before an argument's key, after it, and after its value.
    """

    def __init__(self, rules: Rules, tool: Tool, tags: tuple[str, str, str]) -> None:
        self._rules = rules
        self._tool = tool
        self._before, self._between, self._after = tags

    def arguments(self) -> str:
        """Return an expression for all arguments, in the order of the schema."""
        tool, rules = self._tool, self._rules
        if "properties" not in tool.parameters:
            any_argument = rules.rule(
                f"{rules.spelled(self._before)} {_KEY} {rules.spelled(self._between)} "
                f"{rules.text_to(self._after.lstrip())}"
            )
            return f"{any_argument}*"
        each = [
            self._argument(str(name)) + ("" if name in tool.required else "?")
            for name in tool.properties
        ]
        return " ".join(each)

    def _argument(self, name: str) -> str:
        rules = self._rules
        schema = self._tool.properties[name]
        types = types_of(schema, self._tool.parameters)
        head = rules.spelled(f"{self._before}{name}{self._between}")
        named = values_of(schema)
        if named and all(isinstance(value, str) for value in named):
            choices = " | ".join(map(literal, named))
            return rules.rule(f"{head} ({choices}) {rules.spelled(self._after)}")
        if is_text(types) or "string" in types:
            return rules.rule(f"{head} {rules.text_to(self._after.lstrip())}")
        value = rules.rule(json_of(self._tool, schema if isinstance(schema, Mapping) else {}))
        return rules.rule(f"{head} {value} {rules.spelled(self._after)}")


def values_of(schema: object) -> list[Any]:
    """Return the values that a schema names; empty if it names none."""
    if not isinstance(schema, Mapping):
        return []
    named = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return named if isinstance(named, list) else []


def json_of(tool: Tool, schema: Mapping[str, Any]) -> str:
    """Return an expression for JSON that a part of a tool's schema is of."""
    shared = ("$defs", "definitions")
    defined = {key: tool.parameters[key] for key in shared if key in tool.parameters}
    return json_value({**defined, **schema}, lenient=not tool.strict)
