"""Arguments that a format writes without quotes, as the JSON that a tool's schema asks for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

ALL_TYPES = frozenset({"string", "number", "boolean", "null", "object", "array"})
_MAX_DEPTH = 16
_PYTHON = {"True": "true", "False": "false", "None": "null"}


def types_of(schema: object, root: Mapping[str, Any]) -> frozenset[str]:
    """Return the JSON types that a schema allows, ``integer`` as ``number``.

    Args:
        schema: of one argument.
        root: the schema of all, which ``$ref`` looks into.
    """
    return _types(schema, root, 0, {})


def _types(
    schema: object, root: Mapping[str, Any], depth: int, known: dict[int, frozenset[str]]
) -> frozenset[str]:
    """The same, after ``depth`` choices and ``$ref``; ``known`` has those of other schemas."""
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return ALL_TYPES
    # A schema that comes again, in itself or beside itself, is not looked at again: choices among
    # schemas that lead back to them would take for ever.
    if id(schema) not in known:
        known[id(schema)] = ALL_TYPES
        known[id(schema)] = _types_here(schema, root, depth, known)
    return known[id(schema)]


def _types_here(
    schema: Mapping[str, Any], root: Mapping[str, Any], depth: int, known: dict[int, frozenset[str]]
) -> frozenset[str]:
    types = ALL_TYPES
    if "type" in schema:
        named = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        types &= {"number" if name == "integer" else str(name) for name in named}
    for values in (schema.get("enum"), [schema["const"]] if "const" in schema else None):
        if isinstance(values, list):
            types &= {_type_of(value) for value in values}
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            options = [_types(option, root, depth + 1, known) for option in schema[key]]
            types &= frozenset().union(*options)
    if isinstance(schema.get("$ref"), str):
        types &= _types(_target(schema["$ref"], root), root, depth + 1, known)
    return types or ALL_TYPES


def is_text(types: frozenset[str]) -> bool:
    """Whether an argument is a string whatever it looks like."""
    return types == {"string"}


def json_of(text: str, types: frozenset[str]) -> str:
    """Return an argument as JSON: as what it looks like if that is allowed, else as a string."""
    if not is_text(types):
        value = _PYTHON.get(text.strip(), text.strip())
        try:
            parsed = json.loads(value, parse_constant=_refuse)
        except (ValueError, RecursionError):
            pass
        else:
            if "string" not in types or (
                _type_of(parsed) in types and _type_of(parsed) != "string"
            ):
                return value
    return json.dumps(text, ensure_ascii=False)


def is_json(text: str) -> bool:
    """Whether a text is JSON as the standard has it."""
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _type_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _target(reference: str, root: Mapping[str, Any]) -> object:
    target: object = root
    for name in reference.removeprefix("#").split("/")[1:]:
        name = name.replace("~1", "/").replace("~0", "~")
        if not isinstance(target, Mapping) or name not in target:
            return None
        target = target[name]
    return target
