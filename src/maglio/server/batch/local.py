"""The server without a socket: a request to an application of this process.

Boundary: ASGI messages. The client that it plays never goes away by itself.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.types import ASGIApp, Message


@dataclass(frozen=True, slots=True)
class Answer:
    """What the application said.

    Attributes:
        status: of HTTP.
        request_id: the server's name for the request.
        body: a JSON document, on one line.
    """

    status: int
    request_id: str
    body: bytes


async def post(app: ASGIApp, path: str, body: bytes, *, size: int | None = None) -> Answer:
    """Send a JSON document.

    Args:
        app: the application.
        path: where to.
        body: the document.
        size: bytes that it is said to have; as many as it has, when ``None``.
    """
    announced = str(len(body) if size is None else size).encode()
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [
            (b"host", b"127.0.0.1"),
            (b"content-type", b"application/json"),
            (b"content-length", announced),
        ],
        "client": None,
        "server": ("127.0.0.1", None),
    }
    unread = [body]
    status, request_id, said = 0, "", bytearray()

    async def receive() -> Message:
        if not unread:
            await asyncio.Event().wait()  # a client that waits for its answer
        return {"type": "http.request", "body": unread.pop(), "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, request_id
        if message["type"] == "http.response.start":
            status = message["status"]
            request_id = dict(message["headers"]).get(b"x-request-id", b"").decode()
        else:
            said.extend(message.get("body", b""))

    await app(scope, receive, send)
    return Answer(status, request_id, bytes(said))
