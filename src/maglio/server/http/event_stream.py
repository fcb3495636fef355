"""A response of server-sent events.

Boundary: writes what a generator yields; knows no dialect. The status is sent with the first event,
so what fails before it is an ordinary error; if nothing comes for a while, a comment comes instead.
A client that has gone ends the generator at once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from maglio.server import limits
from maglio.server.errors import ApiError
from maglio.server.http.disconnect import while_connected
from maglio.server.http.failure import told
from maglio.server.telemetry.record import Record

_COMMENT = b": keep-alive\n\n"
_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


def event(data: object, *, name: str | None = None) -> bytes:
    """One event: a document, or a text as it is."""
    text = data if isinstance(data, str) else compact(data)
    head = "" if name is None else f"event: {name}\n"
    return f"{head}data: {text}\n\n".encode()


def compact(document: Any) -> str:  # noqa: ANN401  # whatever JSON holds
    """JSON without spaces, on one line."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


class EventStream(Response):
    """Events as they come.

    Args:
        events: yields them; closed at the end, or when the client has gone.
        record: of the request.
        refuse: makes the response to an error before the first event.
        broken: makes the event that tells of one after it.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        record: Record,
        *,
        refuse: Callable[[ApiError], Response],
        broken: Callable[[ApiError], bytes],
    ) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._events = events
        self._record = record
        record.streamed = True
        self._refuse = refuse
        self._broken = broken

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them."""
        try:
            refused = await while_connected(receive, self._write(send))
        except ClientDisconnect:
            self._record.left = True
            return
        finally:
            await self._events.aclose()
        if refused is not None:
            await refused(scope, receive, send)

    async def _write(self, send: Send) -> Response | None:
        """Write all events; or return the response to what failed before the first."""
        writer = _Writer(send, self.raw_headers)
        alive = asyncio.ensure_future(writer.keep_alive())
        try:
            async for data in self._events:
                await writer.write(data)
        except Exception as error:
            told_error = told(error, self._record)
            if not writer.is_begun:
                return self._refuse(told_error)
            await writer.write(self._broken(told_error))
        finally:
            alive.cancel()
            await asyncio.gather(alive, return_exceptions=True)
        await writer.end()
        return None


class _Writer:
    """Writes to one client. What is awaited for an event is only that the client takes it."""

    def __init__(self, send: Send, headers: list[tuple[bytes, bytes]]) -> None:
        self._send = send
        self._headers = headers
        self.is_begun = False
        self._wrote = False  # since the last look

    async def write(self, data: bytes) -> None:
        self._wrote = True
        await self._begin()
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def keep_alive(self) -> None:
        """Write a comment whenever nothing has been written for a while."""
        while True:
            await asyncio.sleep(limits.KEEP_ALIVE_SECONDS)
            if not self._wrote:
                await self.write(_COMMENT)
            self._wrote = False

    async def end(self) -> None:
        await self._begin()
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _begin(self) -> None:
        if not self.is_begun:
            self.is_begun = True
            start = {"type": "http.response.start", "status": 200, "headers": self._headers}
            await self._send(start)
