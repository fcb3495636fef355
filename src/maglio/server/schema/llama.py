"""The body of llama.cpp's ``/completion``.

Boundary: one model; its fields are those of a completion, and llama.cpp's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from maglio.server import limits
from maglio.server.schema.completion import CompletionRequest


class LlamaRequest(CompletionRequest):
    """Texts to be continued; until the context ends, where nothing is said."""

    refused: ClassVar[Mapping[str, tuple[str, tuple[object, ...]]]] = {
        **CompletionRequest.refused,
        "post_sampling_probs": ("probabilities are those of the model", (False,)),
        "n_indent": ("lines are not looked at", (0,)),
        "response_fields": ("answers are whole", ([],)),
        "image_data": ("images are not supported", ([],)),
    }

    n_probs: Annotated[int, Field(ge=0, le=limits.LOGPROBS)] = 0
    return_tokens: bool = False

    @property
    def completion(self) -> LlamaRequest:
        """The same with what llama.cpp says in its own way said as for a completion."""
        says_limit = self.max_tokens is not None or self.n_predict is not None
        changes: dict[str, int | None] = {"logprobs": self.n_probs or None}
        if not says_limit:
            changes["n_predict"] = -1
        return self.model_copy(update=changes)
