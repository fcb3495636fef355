"""What goes wrong with a request, as clients of OpenAI's API are told.

Boundary: from errors to a status and an error object; writes no response.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maglio.errors import (
    ChatTemplateError,
    ContextFullError,
    GrammarError,
    InvalidArgumentError,
    MaglioError,
    OutOfMemoryError,
)
from maglio.server.streams.service import ServiceBusyError, ServiceClosedError

INVALID = "invalid_request_error"
SERVER = "server_error"


class ApiError(MaglioError):
    """A request that is answered with an error.

    Attributes:
        status: HTTP status.
        message: what happened, and what to do.
        kind: the error object's ``type``.
        param: the field that is wrong, as in ``messages[0].content``; ``None`` if it is none.
        code: a short name for programs.
        headers: more headers of the response.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = INVALID,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param
        self.code = code
        self.headers: Mapping[str, str] = dict(headers or {})

    @property
    def document(self) -> dict[str, Any]:
        """The body of the response."""
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param,
                "code": self.code,
            }
        }


def not_found(message: str, *, code: str = "not_found", param: str | None = None) -> ApiError:
    """What was asked for is not here."""
    return ApiError(message, status=404, code=code, param=param)


def overloaded(message: str, *, code: str, headers: Mapping[str, str] | None = None) -> ApiError:
    """The server is at a limit that passes; clients try again by themselves."""
    headers = {"retry-after": "1", **(headers or {})}
    return ApiError(message, status=503, kind=SERVER, code=code, headers=headers)


def as_api_error(error: Exception) -> ApiError:
    """What a client is told of an error. Of one that nobody expected: nothing but that."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, ContextFullError):
        # litellm, and so aider, knows a full context by these words alone.
        message = f"This model's maximum context length is exceeded: {error}"
        return ApiError(message, code="context_length_exceeded")
    if isinstance(error, ServiceBusyError):
        return overloaded(str(error), code="queue_full")
    if isinstance(error, ServiceClosedError):
        return overloaded(str(error), code="shutting_down")
    if isinstance(error, OutOfMemoryError):
        return overloaded(str(error), code="out_of_memory")
    if isinstance(error, GrammarError):
        return ApiError(str(error), code="invalid_grammar")
    if isinstance(error, (InvalidArgumentError, ChatTemplateError)):
        return ApiError(str(error), code="invalid_value")
    if isinstance(error, MaglioError):
        return ApiError(str(error), status=500, kind=SERVER, code="generation_failed")
    return ApiError(
        "the server failed on this request; its log says more",
        status=500,
        kind=SERVER,
        code="internal_error",
    )
