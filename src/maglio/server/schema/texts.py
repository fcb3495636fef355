"""Texts in several shapes: a content that is a text or a list of parts, and lists of stop texts.

Boundary: from what clients send to one text, or one list of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from maglio.server import limits

_MEDIA = {"image_url", "input_image", "image", "input_audio", "audio", "video_url", "file"}
_TEXTS = {"text", "input_text", "output_text"}


def content_text(content: Any) -> Any:  # noqa: ANN401  # whatever JSON holds
    """The text of a content: itself, or its text parts on lines of their own."""
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise PydanticCustomError("content_type", "must be a text or a list of text parts")
    return "\n".join(map(_part_text, content))


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    given = part.get("type") if isinstance(part, Mapping) else None
    kind = given if isinstance(given, str) else None
    if kind in _MEDIA:
        raise PydanticCustomError(
            "content_media",
            "has a part of type {kind}: images, sound and files are not supported, only text",
            {"kind": kind},
        )
    if isinstance(part, Mapping):
        text = part.get("text" if kind in _TEXTS else "refusal")
        if isinstance(text, str) and (kind in _TEXTS or kind == "refusal"):
            return text
    raise PydanticCustomError(
        "content_type", 'must be a text or a list of parts {"type": "text", "text": "…"}'
    )


def _as_list(texts: Any) -> Any:  # noqa: ANN401
    return [texts] if isinstance(texts, str) else texts


Content = Annotated[str | None, BeforeValidator(content_text)]
"""A text, whatever shape it came in."""
StopText = Annotated[str, Field(min_length=1, max_length=limits.STOP_CHARACTERS)]
StopTexts = Annotated[list[StopText], BeforeValidator(_as_list), Field(max_length=limits.STOPS)]
