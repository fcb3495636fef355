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
from maglio.server.disconnect import while_connected
from maglio.server.errors import ApiError
from maglio.server.record import Record
from maglio.server.telling import told

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
        is_begun = False
        waiting = asyncio.ensure_future(anext(self._events))
        try:
            while True:
                await asyncio.wait({waiting}, timeout=limits.KEEP_ALIVE_SECONDS)
                try:
                    data = waiting.result() if waiting.done() else _COMMENT
                except StopAsyncIteration:
                    break
                except Exception as error:
                    if not is_begun:
                        return self._refuse(told(error, self._record))
                    await self._send(send, self._broken(told(error, self._record)))
                    break
                if not is_begun:
                    await self._begin(send)
                    is_begun = True
                await self._send(send, data)
                if waiting.done():
                    waiting = asyncio.ensure_future(anext(self._events))
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        if not is_begun:
            await self._begin(send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return None

    async def _begin(self, send: Send) -> None:
        message = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(message)

    @staticmethod
    async def _send(send: Send, data: bytes) -> None:
        await send({"type": "http.response.body", "body": data, "more_body": True})
