"""A tool as the formats know it: a name and the schema of its arguments. A value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from maglio.calls.typed import ALL_TYPES, types_of
from maglio.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a model may call.

    Attributes:
        name: how it is called.
        parameters: the JSON schema of its arguments.
        strict: whether arguments must keep to what no grammar can express too; such a schema is
            refused then.
    """

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> Tool:
        """Read a tool's description in OpenAI's form, with or without ``function`` around it.

        Raises:
            InvalidArgumentError: it has no name, or its parameters are not a mapping.
        """
        inner = description.get("function", description)
        name = inner.get("name") if isinstance(inner, Mapping) else None
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError(
                f"tool {description!r:.80} has no name; give it a text as name"
            )
        parameters = inner.get("parameters")
        if parameters is not None and not isinstance(parameters, Mapping):
            raise InvalidArgumentError(f"parameters of the tool {name!r:.80} must be a mapping")
        return cls(name, parameters or {}, inner.get("strict") is True)

    @property
    def properties(self) -> Mapping[str, Any]:
        """The schema of each argument that is described."""
        properties = self.parameters.get("properties")
        return properties if isinstance(properties, Mapping) else {}

    @property
    def required(self) -> frozenset[str]:
        """The arguments that a call must have."""
        required = self.parameters.get("required")
        return frozenset(map(str, required)) if isinstance(required, list) else frozenset()

    def types(self, argument: str) -> frozenset[str]:
        """The JSON types that an argument may have."""
        if argument not in self.properties:
            return ALL_TYPES
        return types_of(self.properties[argument], self.parameters)


def tools_of(descriptions: Iterable[Mapping[str, Any]]) -> dict[str, Tool]:
    """Return tools by name; the last of a name counts."""
    return {tool.name: tool for tool in map(Tool.of, descriptions)}
