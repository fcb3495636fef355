"""A line of a batch.

Boundary: what is around a body; the body itself is checked where it is answered.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from maglio.server import limits
from maglio.server.schema.wire import Body


class BatchLine(Body):
    """A request of a batch, as OpenAI has it."""

    custom_id: Annotated[str, Field(min_length=1, max_length=limits.CUSTOM_ID_CHARACTERS)]
    method: Literal["POST"]
    url: str
    body: Any
