"""The public face of the package as text, one line per name, so that a change of it is seen.

PYTHONPATH=tests python -m support.api > tests/goldens/api.txt
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Iterator

import maglio


def describe() -> str:
    """Every public name with its signature, and the members of public classes."""
    return "\n".join(line for name in sorted(maglio.__all__) for line in _lines(name)) + "\n"


def _lines(name: str) -> Iterator[str]:
    value = getattr(maglio, name)
    if not inspect.isclass(value):
        yield f"{name}{_signature(value)}" if callable(value) else name
        return
    bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
    yield f"class {name}({bases})"
    if not issubclass(value, (Exception, enum.Enum)):
        yield f"    {name}{_signature(value)}"
    for member in sorted(vars(value)):
        if not member.startswith("_"):
            yield f"    .{member}{_kind(inspect.getattr_static(value, member))}"


def _kind(member: object) -> str:
    if isinstance(member, (staticmethod, classmethod)):
        return _signature(member.__func__)
    return _signature(member) if inspect.isfunction(member) else ""


def _signature(value: object) -> str:
    return str(inspect.signature(value))


if __name__ == "__main__":
    print(describe(), end="")
