"""One request to a server, sent as well-behaved clients send it, and as others do."""

from __future__ import annotations

import asyncio
import random
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import h11

Manner = Literal["plain", "slow", "leave", "half-close", "garbage", "unfinished"]
"""How a client behaves: it reads at once; reads a little now and then; leaves in the middle;
closes its side after the request; sends bytes that are not HTTP after it; or leaves before the
request is whole."""

_GARBAGE = b"\x16\x03\x01 this is not HTTP \xff\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request on the wire."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    chunked: bool = False

    def data(self) -> bytes:
        """Its bytes."""
        length = ("transfer-encoding", "chunked") if self.chunked else None
        head = h11.Request(
            method=self.method,
            target=self.path,
            headers=[
                ("host", "127.0.0.1"),
                ("connection", "close"),
                length or ("content-length", str(len(self.body))),
                *self.headers,
            ],
        )
        writer = h11.Connection(h11.CLIENT)
        step = 1 << 20 if self.chunked else max(1, len(self.body))
        pieces = [self.body[first : first + step] for first in range(0, len(self.body), step)]
        events = [head, *(h11.Data(piece) for piece in pieces), h11.EndOfMessage()]
        return b"".join(writer.send(one) or b"" for one in events)


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    kind: str  # of content
    body: bytes
    is_whole: bool


async def exchange(
    host: str, port: int, asked: Asked, manner: Manner, rng: random.Random
) -> Reply | None:
    """Send a request and read the reply; ``None`` where none came or none was waited for.

    Raises:
        h11.RemoteProtocolError: what came is not HTTP.
    """
    opened = socket.socket()
    opened.setblocking(False)
    if manner == "slow":
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await asyncio.get_running_loop().sock_connect(opened, (host, port))
    reader, writer = await asyncio.open_connection(sock=opened, limit=4096)
    try:
        return await _exchange(reader, writer, asked.data(), manner, rng)
    finally:
        writer.transport.abort()


async def _exchange(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    data: bytes,
    manner: Manner,
    rng: random.Random,
) -> Reply | None:
    if manner == "unfinished":
        writer.write(data[: rng.randrange(1, len(data))])
        await asyncio.sleep(rng.random() * 0.05)
        return None
    if manner == "garbage":
        data += _GARBAGE
    sending = asyncio.ensure_future(_send(writer, data, ends=manner == "half-close"))
    try:
        if manner == "leave":
            await _leave(reader, writer, rng)
            return None
        return await _read(reader, slowly=manner == "slow")
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def _send(writer: asyncio.StreamWriter, data: bytes, *, ends: bool) -> None:
    with suppress(ConnectionError):  # what came before it may be an answer
        for first in range(0, len(data), 1 << 16):
            writer.write(data[first : first + (1 << 16)])
            await writer.drain()
        if ends:
            writer.write_eof()


async def _leave(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rng: random.Random
) -> None:
    """Read a part of the answer, or wait a while, and go."""
    with suppress(TimeoutError, asyncio.TimeoutError, ConnectionError):
        n_bytes = rng.randrange(1, 600)
        await asyncio.wait_for(reader.read(n_bytes), rng.choice((0.001, 0.01, 0.1, 1.0)))
    if rng.random() < 0.5:
        writer.close()  # in an orderly way; else the connection is reset


async def _read(reader: asyncio.StreamReader, *, slowly: bool) -> Reply | None:
    parser = h11.Connection(h11.CLIENT)
    parser.send(h11.Request(method="GET", target="/", headers=[("host", "none")]))
    parser.send(h11.EndOfMessage())
    head: h11.Response | None = None
    body = bytearray()
    n_reads = 0
    while True:
        found = parser.next_event()
        if isinstance(found, h11.Response):
            head = found
        elif isinstance(found, h11.Data):
            body += found.data
        elif isinstance(found, (h11.EndOfMessage, h11.ConnectionClosed)):
            return _reply(head, bytes(body), is_whole=isinstance(found, h11.EndOfMessage))
        elif found is h11.NEED_DATA:
            if slowly and n_reads < 40:
                await asyncio.sleep(0.01)
            try:
                data = await reader.read((1 if n_reads < 20 else 200) if slowly else 4096)
            except ConnectionError:
                return _reply(head, bytes(body), is_whole=False)
            n_reads += 1
            if not data and (head is None or parser.their_state is h11.SEND_BODY):
                return _reply(head, bytes(body), is_whole=False)
            parser.receive_data(data)


def _reply(head: h11.Response | None, body: bytes, *, is_whole: bool) -> Reply | None:
    if head is None:
        return None
    kind = dict(head.headers).get(b"content-type", b"").decode()
    return Reply(head.status_code, kind.partition(";")[0], body, is_whole)
