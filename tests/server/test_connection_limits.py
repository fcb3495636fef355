"""How many connections there may be, and how much they may send at a time."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from maglio.server import limits
from support.http_server import Running, running

CHAT = "/v1/chat/completions"
HEALTH = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
HELLO = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 3, "temperature": 0}


@pytest.fixture
def small(tiny_chat, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A server with three connections."""
    monkeypatch.setattr(limits, "SPARE_CONNECTIONS", 1)
    with running(tiny_chat, parallel=1, queue=1) as started:
        yield started


def connect(server: Running) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def replied(opened: socket.socket, request: bytes = HEALTH) -> tuple[int, bytes, bytes]:
    """The status, the head and the body of the reply to a request."""
    opened.sendall(request)
    said = b""
    while b"\r\n\r\n" not in said or not said.endswith(b"}"):
        said += opened.recv(1 << 16)
    head, _, body = said.partition(b"\r\n\r\n")
    return int(head.split()[1]), head, body


def test_a_connection_too_many_is_refused_and_the_others_are_served(small):
    with ExitStack() as stack:
        opened = [stack.enter_context(connect(small)) for _ in range(3)]
        assert [replied(one)[0] for one in opened] == [200] * 3
        surplus = stack.enter_context(connect(small))
        status, head, body = replied(surplus)
        assert status == 503
        assert b"\r\nretry-after: 1" in head
        assert json.loads(body)["error"]["code"] == "too_many_connections"
        assert surplus.recv(1) == b""
        assert [replied(one)[0] for one in opened] == [200] * 3
        opened.pop().close()
        assert replied(opened[0])[0] == 200  # by then the other is known to have gone
        assert replied(stack.enter_context(connect(small)))[0] == 200


def test_far_too_many_are_closed_at_once(small, monkeypatch):
    monkeypatch.setattr(limits, "HEAD_SECONDS", 1000.0)  # they are not closed for saying nothing
    with ExitStack() as stack:
        opened = [stack.enter_context(connect(small)) for _ in range(6)]
        assert [replied(one)[0] for one in opened[:3]] == [200] * 3
        last = stack.enter_context(connect(small))
        with suppress(ConnectionResetError):
            assert last.recv(1) == b""
        assert replied(opened[3])[0] == 503


def head_of(body: bytes) -> bytes:
    head = f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
    return head.encode()


def test_bodies_are_bounded_together(small, monkeypatch):
    body = json.dumps(HELLO | {"user": "x" * 500}).encode()
    monkeypatch.setattr(limits, "BODIES_BYTES", 2 * len(body) - 50)
    with connect(small) as slow, connect(small) as other:
        slow.sendall(head_of(body) + b"expect: 100-continue\r\n\r\n")
        assert slow.recv(100).startswith(b"HTTP/1.1 100 ")  # it is being read
        slow.sendall(body[:-10])
        status, head, said = replied(other, head_of(body) + b"\r\n" + body)
        assert status == 503
        assert b"\r\nretry-after: 1" in head
        assert json.loads(said)["error"]["code"] == "too_many_bodies"
        assert replied(slow, body[-10:])[0] == 200
        with connect(small) as third:  # what was held is given back
            assert replied(third, head_of(body) + b"\r\n" + body)[0] == 200


def test_what_was_held_for_a_client_that_left_is_given_back(small, monkeypatch):
    body = json.dumps(HELLO | {"user": "x" * 500}).encode()
    monkeypatch.setattr(limits, "BODIES_BYTES", len(body))
    with connect(small) as slow:
        slow.sendall(head_of(body) + b"expect: 100-continue\r\n\r\n")
        assert slow.recv(100).startswith(b"HTTP/1.1 100 ")
        slow.sendall(body[:-10])
    with connect(small) as other:
        assert replied(other, head_of(body) + b"\r\n" + body)[0] == 200
