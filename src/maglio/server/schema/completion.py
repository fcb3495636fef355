"""The body of ``/v1/completions``.

Boundary: one model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from maglio.server import limits
from maglio.server.schema.generating import GeneratingBody


def _prompts(prompt: Any) -> Any:  # noqa: ANN401  # whatever JSON holds
    """A list of prompts, each a text or token ids."""
    if isinstance(prompt, str):
        return [prompt]
    if isinstance(prompt, list) and prompt and all(_is_id(token) for token in prompt):
        return [prompt]
    if isinstance(prompt, list) and prompt and all(map(_is_prompt, prompt)):
        return prompt
    raise PydanticCustomError(
        "prompt_type", "must be a text, a list of texts, token ids, or a list of token ids"
    )


def _is_prompt(prompt: object) -> bool:
    return isinstance(prompt, str) or (isinstance(prompt, list) and all(map(_is_id, prompt)))


def _is_id(token: object) -> bool:
    return isinstance(token, int) and not isinstance(token, bool)


Prompts = Annotated[
    list[str | list[int]], BeforeValidator(_prompts), Field(max_length=limits.PROMPTS)
]


class CompletionRequest(GeneratingBody):
    """Texts to be continued."""

    refused: ClassVar[Mapping[str, tuple[str, tuple[object, ...]]]] = {
        **GeneratingBody.refused,
        "suffix": (
            "nothing is inserted into a text here; if the model has tokens for it, spell them in "
            "prompt",
            ("",),
        ),
    }

    prompt: Prompts
    echo: bool = False
    logprobs: Annotated[int, Field(ge=0, le=limits.LOGPROBS)] | None = None
    best_of: Annotated[int, Field(ge=1, le=limits.CHOICES)] | None = None
