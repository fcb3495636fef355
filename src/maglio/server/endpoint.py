"""What all endpoints have in common: a state, a record, and how their errors are told.

Boundary: around one endpoint. What goes around all of them is :mod:`maglio.server.gate`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from maglio.server.errors import ApiError
from maglio.server.http.body import read_json
from maglio.server.http.disconnect import while_connected
from maglio.server.http.event_stream import EventStream, compact, event
from maglio.server.http.failure import told
from maglio.server.schema.wire import Body, read
from maglio.server.state import ServerState
from maglio.server.telemetry.record import Record

B = TypeVar("B", bound=Body)
WriteError = Callable[[ApiError], Response]
GONE = 499
"""nginx's status for a client that has gone; for the log alone."""


class Call:
    """One request to an endpoint.

    Attributes:
        http: the request.
        state: the server.
        record: what the log will say of it.
    """

    def __init__(self, http: Request, state: ServerState) -> None:
        self.http = http
        self.state = state
        self.record: Record = http.state.record

    async def body(self, kind: type[B]) -> B:
        """The checked body.

        Raises:
            ApiError: it is not what it must be.
        """
        return read(kind, await self.json())

    async def json(self) -> object:
        """The document that was sent.

        Raises:
            ApiError: there is none, or it is over a limit.
        """
        return await read_json(self.http, self.record, self.state.bodies)

    async def answer(self, work: Awaitable[Response]) -> Response:
        """A response that is worked out only while the client is there."""

        async def run() -> Response:
            return await work

        return await while_connected(self.http.receive, run())


Endpoint = Callable[[Call], Awaitable[Response]]


def document(value: object, *, status: int = 200) -> Response:
    """A response of JSON."""
    return Response(compact(value), status, media_type="application/json")


def openai_error(error: ApiError) -> Response:
    """An error as OpenAI's clients read it."""
    response = document(error.document, status=error.status)
    response.headers.update(error.headers)
    return response


def openai_error_event(error: ApiError) -> bytes:
    """The same in a stream."""
    return event(error.document)


def openai_stream(call: Call, events: AsyncGenerator[bytes, None]) -> Response:
    """A stream whose errors are told as OpenAI's clients read them."""
    return EventStream(events, call.record, refuse=openai_error, broken=openai_error_event)


def routes(
    state: ServerState,
    endpoint: Endpoint,
    paths: Sequence[str],
    *,
    methods: Sequence[str] = ("GET",),
    write_error: WriteError = openai_error,
) -> list[Route]:
    """An endpoint at its paths; the first one names it in logs and metrics.

    Args:
        state: the server.
        endpoint: answers a call.
        paths: where.
        methods: of HTTP.
        write_error: makes the response to an error.
    """

    async def run(request: Request) -> Response:
        call = Call(request, state)
        call.record.endpoint = paths[0]
        try:
            return await endpoint(call)
        except ClientDisconnect:
            call.record.left = True
            return Response(status_code=GONE)
        except Exception as error:
            return write_error(told(error, call.record))

    return [Route(path, run, methods=list(methods)) for path in paths]
