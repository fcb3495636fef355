"""The base of all models of bodies, and how a document becomes one of them.

Boundary: knows no endpoint. Types are strict: a number in quotation marks is not a number. ``null``
is the same as leaving a field out, as with OpenAI.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from maglio.server.errors import ApiError

X = TypeVar("X")
T = TypeVar("T", bound="Body")
Many = Annotated[list[X], Field(fail_fast=True)]
"""A list of any length. Checking it stops at the first fault, since every fault takes memory."""
_SHOWN = 60
_UNKNOWN = "unknown_name"
_LONGEST_NAME = 100


class Wire(BaseModel):
    """A JSON object within a body. Names it does not have are refused."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=()
    )

    @model_validator(mode="before")
    @classmethod
    def _knows_names(cls, given: Any) -> Any:  # noqa: ANN401  # whatever JSON holds
        """Refuse the first name that is not known; pydantic would list them all."""
        if isinstance(given, Mapping) and cls.model_config["extra"] == "forbid":
            known = _names(cls)
            for name in given:
                if name not in known:
                    raise PydanticCustomError(_UNKNOWN, "{name}", {"name": name[:_LONGEST_NAME]})
        return given


class Open(Wire):
    """A JSON object that others read too: more names are kept as they are."""

    model_config = ConfigDict(extra="allow")


class Body(Wire):
    """A whole body.

    Attributes:
        without_effect: fields that clients send, and that change nothing here.
        refused: fields that would change the answer and are not supported: why not, and the values
            that ask for nothing and are accepted.
    """

    without_effect: ClassVar[frozenset[str]] = frozenset()
    refused: ClassVar[Mapping[str, tuple[str, tuple[object, ...]]]] = {}


def read(kind: type[T], document: object) -> T:
    """Check a parsed JSON document.

    Raises:
        ApiError: it is not what ``kind`` describes; names the first field that is wrong.
    """
    if not isinstance(document, Mapping):
        raise ApiError(
            f"the body is {_shown(document)}, must be a JSON object", code="invalid_type"
        )
    known = {name: value for name, value in document.items() if _counts(kind, name, value)}
    try:
        return kind.model_validate(known)
    except ValidationError as error:
        raise _told(error.errors(include_url=False)[0]) from None


def _counts(kind: type[Body], name: str, value: object) -> bool:
    """Whether a field says something; refuses those that cannot be understood."""
    if name in _names(kind):
        return value is not None
    if name in kind.without_effect:
        return False
    if name in kind.refused:
        why, neutral = kind.refused[name]
        # 1 == True in Python, and both may stand for the other here.
        if value is None or value in neutral:
            return False
        raise ApiError(f"{name} is not supported: {why}", param=name, code="unsupported_parameter")
    name = name[:_LONGEST_NAME]
    near = difflib.get_close_matches(name, _names(kind), 1, 0.75)
    hint = f". Did you mean {near[0]}?" if near else ""
    raise ApiError(
        f"Unrecognized request argument supplied: {name}{hint}",
        param=name,
        code="unknown_parameter",
    )


def _names(kind: type[Wire]) -> set[str]:
    return {field.alias or name for name, field in kind.model_fields.items()}


def _told(fault: ErrorDetails) -> ApiError:
    param = _path(fault["loc"])
    what = fault["msg"].replace(" after validation", "")
    if fault["type"] == "missing":
        return ApiError(
            f"Missing required parameter: '{param}'.",
            param=param,
            code="missing_required_parameter",
        )
    if fault["type"] == _UNKNOWN:
        param += f".{what}"
        return ApiError(f"Unknown parameter: '{param}'.", param=param, code="unknown_parameter")
    is_type = fault["type"].endswith("_type")
    noun, code = ("type", "invalid_type") if is_type else ("value", "invalid_value")
    given = _shown(fault["input"])
    return ApiError(f"Invalid {noun} for '{param}': {what}; it is {given}.", param=param, code=code)


def _path(places: tuple[int | str, ...]) -> str:
    path = ""
    for place in places:
        path += f"[{place}]" if isinstance(place, int) else f".{place}"
    return path.removeprefix(".")


def _shown(value: Any) -> str:  # noqa: ANN401  # whatever JSON holds
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
