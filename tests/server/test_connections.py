"""Connections that send little, or without end: they are closed, and nobody else is hurt."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import repeat

import httpx
import pytest

from maglio.server import limits

HEALTH = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
CHAT = "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 3, "temperature": 0}


@contextmanager
def connected(server) -> Iterator[socket.socket]:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as opened:
        yield opened


def everything(opened: socket.socket) -> bytes:
    """What comes until the server closes."""
    said = bytearray()
    try:
        while data := opened.recv(1 << 16):
            said += data
    except ConnectionResetError:
        pass
    return bytes(said)


def refusal(opened: socket.socket, status: int) -> dict[str, str]:
    """The error object of a refusal, after which the server closes."""
    head, _, body = everything(opened).partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    return json.loads(body)["error"]


def send_all(opened: socket.socket, pieces: Iterable[bytes]) -> None:
    for piece in pieces:
        opened.sendall(piece)


@pytest.mark.parametrize("begun", [b"", b"\r\n", b"P", b"GET /health HTTP/1.1\r\nhost: x\r\n"])
def test_a_head_that_does_not_come_is_not_waited_for(server, monkeypatch, begun):
    monkeypatch.setattr(limits, "HEAD_SECONDS", 0.05)
    with connected(server) as slow:
        slow.sendall(begun)
        assert everything(slow) == b""


@pytest.mark.parametrize("begun", [b"\r\n", b"GET / HTTP/1.1\r\n"])
def test_nor_is_the_head_of_a_later_request(server, monkeypatch, begun):
    monkeypatch.setattr(limits, "HEAD_SECONDS", 0.05)
    with connected(server) as slow:
        slow.sendall(HEALTH)
        said = slow.recv(1000)
        slow.sendall(begun)
        said += everything(slow)
        assert said.endswith(b'{"status":"ok"}')


@pytest.mark.parametrize(
    "begin",
    [
        b"GET /health HTTP/1.1\r\nhost: ",
        b"GET /",
        b"POST /v1/models HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
        b"1\r\n{\r\n0\r\ntrailer: ",
    ],
)
def test_a_head_or_a_trailer_without_end_is_not_read(server, begin):
    most = 64 << 20  # far more than the limit and what lies in the socket's buffers
    with connected(server) as endless:
        endless.sendall(begin)
        with pytest.raises(OSError, match=r"reset|pipe"):
            send_all(endless, repeat(b"x" * (1 << 16), most >> 16))


def test_what_is_too_long_is_said(server):
    with connected(server) as long:
        long.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n")
        long.sendall(b"x: " + b"y" * (limits.HEAD_BYTES + 1))
        assert refusal(long, 431)["code"] == "head_too_large"


def test_what_is_not_http_is_refused_with_an_error_object(server):
    with connected(server) as other:
        other.sendall(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
        assert refusal(other, 400)["code"] == "invalid_http"


def test_a_refusal_does_not_end_up_in_the_middle_of_an_answer(server):
    forward = server.model.engine.forward
    hold, n = threading.Event(), 0

    def held(batch):
        nonlocal n
        n += 1
        if n > 3:
            hold.wait(30)
        return forward(batch)

    server.model.engine.forward = held
    body = json.dumps(HELLO | {"stream": True, "max_tokens": 50, "ignore_eos": True}).encode()
    try:
        with connected(server) as opened:
            head = f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
            opened.sendall(head.encode() + body)
            said = opened.recv(1000)
            opened.sendall(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
            said += everything(opened)
    finally:
        hold.set()
        server.model.engine.forward = forward
    assert said.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 400" not in said


def test_only_the_head_has_to_hurry(server, monkeypatch):
    """A request that takes longer is answered, also if its client ends a body with a line."""
    monkeypatch.setattr(limits, "HEAD_SECONDS", 0.02)
    monkeypatch.setattr(limits, "KEEP_ALIVE_SECONDS", 0.02)
    body = b'{"messages": [{"role": "user", "content": "hello"}], "max_tokens": 2, "stream": true}'
    hold = threading.Event()
    forward = server.model.engine.forward
    server.model.engine.forward = lambda batch: (hold.wait(30), forward(batch))[1]
    try:
        with connected(server) as patient:
            patient.sendall(
                f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
                "connection: close\r\n\r\n".encode()
                + body
                + b"\r\n"
            )
            said = b""
            while said.count(b": keep-alive") < 10:
                said += patient.recv(1000)
            hold.set()
            assert b"data: [DONE]" in everything(patient)
    finally:
        hold.set()
        server.model.engine.forward = forward


def test_a_long_body_is_no_long_head(server):
    text = "x" * (4 * limits.HEAD_BYTES)
    body = HELLO | {"user": text}
    assert httpx.post(server.url + CHAT, json=body, trust_env=False).status_code == 200
    pieces = iter([b'{"messages": [{"role": "user", "content": "hi"}], "user": "', b"x", b'"}'])
    sent = httpx.post(
        server.url + CHAT,
        content=pieces,
        headers={"content-type": "application/json"},
        trust_env=False,
    )
    assert sent.status_code == 200
