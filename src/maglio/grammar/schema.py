"""What a JSON schema must not ask for, since no limit of llguidance bounds it.

Boundary: a schema as Python values in, an error or a smaller schema out; compiles nothing.

For each remainder that a number can leave, llguidance makes a state. It takes seconds and hundreds
of megabytes before it refuses a number of six digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from maglio.errors import GrammarError

MAX_MULTIPLE = 50_000
"""Most that the least common multiple of all ``multipleOf`` of a schema may be."""

_KEY = "multipleOf"
_VALUES = frozenset({"const", "enum", "default", "examples"})  # they hold no schemas


def check_multiples(schema: object) -> None:
    """Raise GrammarError if the numbers that ``multipleOf`` names are too large together."""
    common = math.lcm(*_multiples(schema))
    if common > MAX_MULTIPLE:
        shown = str(common) if common < 10**30 else "a number of more than 30 digits"
        raise GrammarError(
            f"the numbers of {_KEY}, without trailing zeros, have the least common multiple "
            f"{shown}, more than {MAX_MULTIPLE}; use smaller ones"
        )


def without_multiples(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same without any ``multipleOf``."""
    return {
        key: value if key in _VALUES else _without(value)
        for key, value in schema.items()
        if key != _KEY or isinstance(value, (Mapping, list))  # a property of this name
    }


def _without(value: object) -> object:
    if isinstance(value, Mapping):
        return without_multiples(value)
    return [_without(each) for each in value] if isinstance(value, list) else value


def _multiples(schema: object) -> Iterator[int]:
    stack = [schema]
    while stack:
        at = stack.pop()
        if isinstance(at, list):
            stack += at
        elif isinstance(at, Mapping):
            stack += [value for key, value in at.items() if key not in _VALUES]
            number = at.get(_KEY)
            if isinstance(number, (int, float)) and not isinstance(number, bool):
                yield _digits(number)


def _digits(number: float) -> int:
    """A number without its point and the zeros around it; these make it no dearer."""
    if not math.isfinite(number):
        return 1
    _, digits, _ = Decimal(repr(number)).as_tuple()
    return int("".join(map(str, digits)).strip("0") or "1")
