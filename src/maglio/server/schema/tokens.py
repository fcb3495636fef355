"""The bodies of ``/tokenize`` and ``/detokenize``, as llama.cpp has them.

Boundary: two models.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from maglio.checks import MAX_TOKEN_ID
from maglio.server.schema.wire import Body, Many

TokenId = Annotated[int, Field(ge=0, le=MAX_TOKEN_ID)]


class TokenizeRequest(Body):
    """A text to be split into tokens."""

    model: str | None = None
    content: str
    add_special: bool = False
    parse_special: bool = True
    with_pieces: bool = False


class DetokenizeRequest(Body):
    """Tokens to be joined to a text."""

    model: str | None = None
    tokens: Many[TokenId]
