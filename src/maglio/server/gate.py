"""What every request passes first: who asks, from where, and a line in the log at the end.

Boundary: an ASGI middleware; knows no endpoint.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from maglio.server.endpoint import GONE, WriteError
from maglio.server.http.failure import told
from maglio.server.state import ServerState
from maglio.server.telemetry.record import Record

OPEN = frozenset({"/health", "/v1/health"})
"""Paths that need no key."""


class Gate:
    """Checks requests, and counts them.

    Args:
        app: what is behind it.
        state: the server.
        write_errors: tells how errors are written at a path.
        open_paths: more paths that need no key.
    """

    def __init__(
        self,
        app: ASGIApp,
        state: ServerState,
        *,
        write_errors: Callable[[str], WriteError],
        open_paths: frozenset[str] = frozenset(),
    ) -> None:
        self._app = app
        self._state = state
        self._write_errors = write_errors
        self._open = OPEN | open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        record = Record(scope["method"], scope["path"])
        scope.setdefault("state", {})["record"] = record

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", record.id.encode()),
                ]
            await send(message)

        try:
            await self._enter(scope, receive, noted, record)
        finally:
            if record.status == 0:
                record.status, record.left = GONE, True
            self._state.bodies.give_back(record.body_bytes)
            self._state.log.write(record)
            self._state.metrics.request(record)

    async def _enter(self, scope: Scope, receive: Receive, send: Send, record: Record) -> None:
        connection = HTTPConnection(scope)
        settings = self._state.settings
        try:
            settings.origins.check(connection)
            if scope["path"] not in self._open:
                record.tenant = settings.keys.tenant(connection)
        except Exception as error:
            write_error = self._write_errors(scope["path"])
            await write_error(told(error, record))(scope, receive, send)
            return
        await self._app(scope, receive, send)
