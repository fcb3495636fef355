"""The body of a request: bounded in bytes, also with all others, in time and in depth, and JSON.

Boundary: from the wire to a parsed document; what must be in it, :mod:`maglio.server.schema` says.
"""

from __future__ import annotations

import anyio
from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request

from maglio.server import limits
from maglio.server.errors import ApiError, overloaded
from maglio.server.telemetry.record import Record

_CLOSE = {"connection": "close"}  # what is still to come is not read


class BodyRoom:
    """Bounds what the bodies of all requests take together. Used in the event loop alone."""

    def __init__(self) -> None:
        self._held = 0

    def take(self, n_bytes: int) -> None:
        """Hold more.

        Raises:
            ApiError: there is no room for it.
        """
        if self._held + n_bytes > limits.BODIES_BYTES:
            raise overloaded(
                f"the bodies of the requests at hand have {limits.BODIES_BYTES:,} bytes, the most "
                "there may be; try again later",
                code="too_many_bodies",
                headers=_CLOSE,
            )
        self._held += n_bytes

    def give_back(self, n_bytes: int) -> None:
        """Hold so much less."""
        self._held -= n_bytes


async def read_json(request: Request, record: Record, room: BodyRoom) -> object:
    """The document that was sent.

    Args:
        request: whose body it is.
        record: is told the length, also of a part of it.
        room: for it; whoever made the record gives it back.

    Raises:
        ApiError: it is not JSON, says that it is something else, or is over a limit.
        ClientDisconnect: the client left.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind and kind != "application/json" and not kind.endswith("+json"):
        raise ApiError(
            f"the body is sent as {kind:.100}; send JSON with the header "
            '"Content-Type: application/json"',
            status=415,
            code="unsupported_media_type",
        )
    data = await _read(request, record, room)
    try:
        # Refuses what no JSON has: NaN, lone surrogates, and lists in lists without end.
        return from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise ApiError(
            f"the body is not valid JSON: {_plain(error)}", code="invalid_json"
        ) from None


async def _read(request: Request, record: Record, room: BodyRoom) -> bytes:
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced[:20]) > limits.BODY_BYTES:
        raise _too_long()
    data = bytearray()
    try:
        with anyio.fail_after(limits.BODY_SECONDS):
            async for piece in request.stream():
                if len(data) + len(piece) > limits.BODY_BYTES:
                    raise _too_long()
                room.take(len(piece))
                record.body_bytes += len(piece)
                data += piece
    except TimeoutError:
        raise ApiError(
            f"the body did not arrive within {limits.BODY_SECONDS:.0f} seconds",
            status=408,
            code="request_timeout",
            headers=_CLOSE,
        ) from None
    return bytes(data)


def _too_long() -> ApiError:
    return ApiError(
        f"the body has more than {limits.BODY_BYTES:,} bytes, which is the limit",
        status=413,
        code="request_too_large",
        headers=_CLOSE,
    )


def _plain(error: ValueError) -> str:
    return str(error)[:200].replace("EOF", "it ends", 1)


__all__ = ["ClientDisconnect", "read_json"]
