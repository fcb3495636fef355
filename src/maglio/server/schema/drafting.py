"""What a request says about drafting. It changes speed and never the answer.

Boundary: values as clients send them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from maglio.server import limits
from maglio.server.schema.texts import Content
from maglio.server.schema.wire import Wire


class Speculative(Wire):
    """How to draft.

    Attributes:
        enabled: whether to.
        max_draft: most draft tokens per step.
        gate: whether drafting is switched off while it does not pay.
        history: whether to draft from earlier answers to the same API key, and be drafted from.
        policy: how drafts are made.
    """

    enabled: bool = True
    max_draft: Annotated[int, Field(ge=1, le=256)] | None = None
    gate: bool | None = None
    history: bool | None = None
    policy: Literal["calibrated", "record", "recycling"] | None = None


def _speculative(given: Any) -> Any:  # noqa: ANN401  # whatever JSON holds
    return {"enabled": given} if isinstance(given, bool) else given


def _bounded(texts: list[str]) -> list[str]:
    length = sum(map(len, texts))
    if length > limits.REFERENCE_CHARACTERS:
        raise PydanticCustomError(
            "references_length",
            "has {length} characters in all, of at most {most}",
            {"length": length, "most": limits.REFERENCE_CHARACTERS},
        )
    return texts


class Prediction(Wire):
    """What the answer will probably be."""

    type: Literal["content"]
    content: Content


SpeculativeField = Annotated[Speculative, BeforeValidator(_speculative)]
References = Annotated[
    list[Annotated[str, Field(min_length=1)]],
    Field(max_length=limits.REFERENCES),
    AfterValidator(_bounded),
]
