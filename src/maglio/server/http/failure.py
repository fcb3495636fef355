"""From an exception to the error that a client is told, and a note of it for the log.

Boundary: where errors of requests end. What nobody expected is told in the log alone.
"""

from __future__ import annotations

import traceback

from maglio.server.errors import ApiError, as_api_error
from maglio.server.telemetry.record import Record


def told(error: Exception, record: Record) -> ApiError:
    """The error to tell a client."""
    api_error = as_api_error(error)
    record.error = api_error.code or api_error.kind
    if api_error.status == 500:
        record.trace = "".join(traceback.format_exception(error))
    return api_error
