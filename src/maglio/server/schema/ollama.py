"""The body of Ollama's ``/api/show``.

Boundary: one model.
"""

from __future__ import annotations

from typing import ClassVar

from maglio.server.schema.wire import Body


class ShowRequest(Body):
    """Which model is meant; older clients say ``name``."""

    without_effect: ClassVar[frozenset[str]] = frozenset({"verbose", "system", "options"})

    model: str | None = None
    name: str | None = None
