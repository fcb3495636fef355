"""HTTP on a connection: uvicorn's, bounded in number, with heads bounded in bytes and in time.

Boundary: bytes of a connection; what is asked is not looked at. The time and the length of a body
are bounded where it is read, :mod:`maglio.server.http.body`.
"""

from __future__ import annotations

import asyncio

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from maglio.server import limits
from maglio.server.errors import ApiError, overloaded
from maglio.server.http.event_stream import compact


class Connection(HttpToolsProtocol):
    """A connection that is closed when a head does not come, or does not end.

    What comes when there are as many as may be has its first request refused; when there are twice
    as many, it is closed at once.

    Attributes:
        most: how many there may be.
    """

    most: int

    _unread = 0  # bytes since the last part of a request that was whole
    _is_in_body = False
    _deadline: asyncio.TimerHandle | None = None  # of a head

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there."""
        super().connection_made(transport)
        if len(self.connections) > 2 * self.most:
            transport.abort()
            return
        if len(self.connections) > self.most:
            self.app = self._one_too_many  # said when a head has come: few clients read before
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """It has gone."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """It has sent something."""
        if self._deadline is None and not self._is_in_body:
            self._await_head()
        self._unread += len(data)
        super().data_received(data)
        if self._unread > limits.HEAD_BYTES and not self.transport.is_closing():
            self._refuse(
                "431 Request Header Fields Too Large",
                "head_too_large",
                f"the head has more than {limits.HEAD_BYTES:,} bytes, which is the limit",
            )

    def on_headers_complete(self) -> None:
        """A head is whole."""
        self._stop_waiting()
        self._unread, self._is_in_body = 0, True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of a body."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request is whole."""
        self._unread, self._is_in_body = 0, False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """It has sent what is not HTTP."""
        self._refuse("400 Bad Request", "invalid_http", msg)

    def _refuse(self, status: str, code: str, message: str) -> None:
        """Tell what is wrong, unless that would end up in the middle of an answer; and close."""
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            body = compact(ApiError(message, code=code).document).encode()
            head = (
                f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
        self.transport.close()

    def _await_head(self) -> None:
        self._deadline = self.loop.call_later(limits.HEAD_SECONDS, self._end_waiting)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end_waiting(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._await_head()  # the request before is being answered
        elif not self.transport.is_closing():
            self.transport.close()

    async def _one_too_many(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request."""
        error = overloaded(
            f"{self.most} connections are open, the most there may be; close those that are not "
            "used, or try again later",
            code="too_many_connections",
            headers={"connection": "close"},
        )
        body = compact(error.document)
        response = Response(body, error.status, error.headers, media_type="application/json")
        await response(scope, receive, send)


def bounded(most: int) -> type[Connection]:
    """The connections of one server, of which there may be so many at a time."""
    return type("BoundedConnection", (Connection,), {"most": most})
