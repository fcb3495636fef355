"""Errors as Anthropic's clients read them.

Boundary: from the server's errors to responses and events.
"""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from maglio.server.endpoint import document
from maglio.server.errors import ApiError
from maglio.server.http.event_stream import event

_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    503: "overloaded_error",
}


def anthropic_error(error: ApiError) -> Response:
    """The response to a request that cannot be served."""
    response = document(_told(error), status=error.status)
    response.headers.update(error.headers)
    return response


def anthropic_error_event(error: ApiError) -> bytes:
    """The same in a stream."""
    return event(_told(error), name="error")


def _told(error: ApiError) -> dict[str, Any]:
    usual = "invalid_request_error" if error.status < 500 else "api_error"
    kind = _KINDS.get(error.status, usual)
    return {"type": "error", "error": {"type": kind, "message": error.message}}
