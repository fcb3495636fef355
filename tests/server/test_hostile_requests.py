"""Broken, oversized and abandoned requests: typed errors, no leak, nobody else is hurt."""

from __future__ import annotations

import json
import socket
import threading

import httpx
import pytest

from maglio.server import limits
from support.http_server import running

HELLO = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 3, "temperature": 0}
JSON = {"content-type": "application/json"}
CHAT = "/v1/chat/completions"


def error(answer: httpx.Response, status: int) -> dict[str, object]:
    assert answer.status_code == status, answer.text
    found = answer.json()["error"]
    assert found.keys() == {"message", "type", "param", "code"}
    return found


def until(happened) -> None:
    """Wait for another thread, as long as a broken server would need to be seen as one."""
    pause = threading.Event()
    assert any(happened() or pause.wait(0.005) for _ in range(6000))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nothing",
        b'{"messages": [}',
        b'{"temperature": NaN}',
        b'{"temperature": Infinity}',
        b'{"a": "\\ud800"}',
        b'{"a": "\xff"}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[1] [2]",
    ],
)
def test_what_is_not_json_is_said_not_to_be(client, body):
    found = error(client.post(CHAT, content=body, headers=JSON), 400)
    assert found["code"] == "invalid_json"
    assert str(found["message"]).startswith("the body is not valid JSON: ")


def test_a_body_that_is_cut_off_is_said_to_be(client):
    found = error(client.post(CHAT, content=b'{"messages": [', headers=JSON), 400)
    assert found["message"] == (
        "the body is not valid JSON: it ends while parsing a list at line 1 column 14"
    )


def test_json_that_says_it_is_something_else_is_refused(client):
    answer = client.post(CHAT, data={"messages": "hello"})
    assert error(answer, 415)["code"] == "unsupported_media_type"
    body = json.dumps(HELLO).encode()
    assert client.post(CHAT, content=body).status_code == 200
    for kind in ("application/json; charset=utf-8", "Application/JSON", "application/x+json"):
        answer = client.post(CHAT, content=body, headers={"content-type": kind})
        assert answer.status_code == 200


def test_a_body_over_the_limit_is_not_read(client, monkeypatch):
    monkeypatch.setattr(limits, "BODY_BYTES", 1000)
    long = json.dumps(HELLO | {"user": "x" * 2000}).encode()
    assert error(client.post(CHAT, content=long, headers=JSON), 413)["code"] == "request_too_large"
    pieces = client.post(CHAT, content=iter([long[:900], long[900:]]), headers=JSON)
    assert error(pieces, 413)["code"] == "request_too_large"
    assert client.post(CHAT, json=HELLO).status_code == 200


def test_a_body_that_does_not_come_is_not_waited_for(server, monkeypatch):
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.05)
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as slow:
        slow.sendall(
            f"POST {CHAT} HTTP/1.1\r\nhost: {host}\r\ncontent-length: 100\r\n"
            "content-type: application/json\r\n\r\n{".encode()
        )
        said = slow.recv(1000)
        while more := slow.recv(1000):  # until the server closes
            said += more
        assert said.startswith(b"HTTP/1.1 408 ")


def test_a_prompt_over_the_context_is_told_by_its_code(client):
    long = {"messages": [{"role": "user", "content": "many words " * 100_000}]}
    for body in (long, long | {"stream": True}):
        assert error(client.post(CHAT, json=body), 400)["code"] == "context_length_exceeded"


def test_more_messages_than_the_context_has_tokens_are_not_even_rendered(client, monkeypatch):
    rendered = []
    monkeypatch.setattr("maglio.text.renderer.shared.render", rendered.append)
    many = {"messages": [{"role": "user", "content": ""}] * 2049}
    assert error(client.post(CHAT, json=many), 400)["code"] == "context_length_exceeded"
    assert rendered == []


def test_a_path_that_is_not_there_is_an_error_object(client):
    assert error(client.post("/v1/embeddings", json={}), 404)["code"] == "unknown_url"
    mistyped = error(client.post("/v1/chat/completion", json={}), 404)
    assert mistyped["message"] == (
        "Invalid URL (POST /v1/chat/completion). Did you mean /v1/chat/completions?"
    )
    refused = client.get(CHAT)
    assert refused.headers["allow"] == "POST"
    assert error(refused, 405)["code"] == "method_not_allowed"
    assert error(refused, 405)["message"] == f"GET {CHAT} is not allowed; use POST"
    assert error(client.get("/v1/models/other"), 404)["code"] == "model_not_found"
    assert error(client.post(CHAT, json=HELLO | {"model": "x"}), 404)["param"] == "model"
    assert client.post(CHAT, json=HELLO | {"model": "gpt-4o"}).json()["model"] == "gpt-4o"
    assert client.post(CHAT, json=HELLO | {"model": ""}).json()["model"] == "tiny"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"grammar": "root ::= ("}, "invalid_grammar"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"$ref": "#/x"}}}},
         "invalid_grammar"),
        ({"grammar": 'root ::= "x"', "json_schema": {}}, "invalid_value"),
        ({"max_tokens": 3, "n_predict": 4}, "invalid_value"),
        ({"logit_bias": {"99999": 1}}, "invalid_value"),
        ({"samplers": ["top_k", "magic"]}, "invalid_value"),
        ({"dry_multiplier": 1, "dry_sequence_breakers": ["\u4e2d\u6587 no such"]}, ""),
        ({"messages": [{"role": "user", "content": "x", "deep": {"a": [[[[1]]]]}}]}, ""),
    ],
)  # fmt: skip
def test_what_only_the_model_can_refuse_is_refused_before_a_stream_begins(client, fields, code):
    for stream in (False, True):
        answer = client.post(CHAT, json=HELLO | {"stream": stream} | fields)
        if code:
            assert error(answer, 400)["code"] == code
        else:
            assert answer.status_code == 200


def test_a_template_that_fails_is_told(tmp_path_factory):
    from support.chat_model import chat_model

    template = "{{ raise_exception('no ' + messages[0].role) }}"
    model = chat_model(tmp_path_factory.mktemp("failing"), template=template)
    with running(model) as started, started.client() as client:
        assert "no user" in str(error(client.post(CHAT, json=HELLO), 400)["message"])


@pytest.fixture(scope="module")
def narrow(tiny_chat):
    """A server that does one thing at a time, and lets one more wait."""
    with running(tiny_chat, parallel=1, queue=1) as started:
        yield started


ENDLESS = HELLO | {"max_tokens": -1, "ignore_eos": True, "stream": True, "speculative": False}


def idle(server) -> bool:
    stats = server.service.stats
    return stats.running + stats.waiting == 0


def test_a_full_queue_is_a_503_that_says_when_to_come_back(narrow, monkeypatch):
    with narrow.client() as client:
        done: list[httpx.Response] = []
        hold = threading.Event()
        engine = narrow.model.engine
        forward = engine.forward

        def held(batch):
            hold.wait(30)
            return forward(batch)

        engine.forward = held
        try:
            others = [
                threading.Thread(target=lambda: done.append(client.post(CHAT, json=HELLO)))
                for _ in range(2)
            ]
            for other in others:
                other.start()
            until(lambda: narrow.service.stats.running + narrow.service.stats.waiting == 2)
            template = narrow.model.chat_template
            monkeypatch.setattr(template, "render", None)  # nothing is prepared in vain
            refused = client.post(CHAT, json=HELLO)
        finally:
            hold.set()
            engine.forward = forward
        for other in others:
            other.join()
        assert error(refused, 503)["code"] == "queue_full"
        assert refused.headers["retry-after"] == "1"
        assert [answer.status_code for answer in done] == [200, 200]


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_that_nobody_waits_for_ends_at_once(narrow, stream):
    body = ENDLESS | {"stream": stream}
    hold = threading.Event()
    engine = narrow.model.engine
    forward = engine.forward
    n_forwards = 0

    def counted(batch):
        nonlocal n_forwards
        n_forwards += 1
        if n_forwards > 2:
            hold.wait(30)
        return forward(batch)

    engine.forward = counted
    try:
        host, port = narrow.url.removeprefix("http://").split(":")
        data = json.dumps(body).encode()
        with socket.create_connection((host, int(port)), timeout=30) as leaving:
            leaving.sendall(
                f"POST {CHAT} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(data)}\r\n"
                "content-type: application/json\r\n\r\n".encode()
                + data
            )
            until(lambda: n_forwards > 2)
        until(lambda: '"left": true' in narrow.log.getvalue())
        hold.set()
        until(lambda: idle(narrow))
    finally:
        hold.set()
        engine.forward = forward
    assert n_forwards < 20  # of some hundred
    narrow.log.truncate(0)


def test_while_nothing_comes_a_stream_says_that_it_lives(narrow, monkeypatch):
    monkeypatch.setattr(limits, "KEEP_ALIVE_SECONDS", 0.02)
    hold = threading.Event()
    engine = narrow.model.engine
    forward = engine.forward
    engine.forward = lambda batch: (hold.wait(30), forward(batch))[1]
    try:
        asked = {"json": HELLO | {"stream": True}}
        with narrow.client() as client, client.stream("POST", CHAT, **asked) as answer:
            lines = answer.iter_lines()
            assert next(lines) == ": keep-alive"
            hold.set()
            assert list(lines)[-2] == "data: [DONE]"
    finally:
        hold.set()
        engine.forward = forward


def test_what_fails_in_the_middle_of_a_stream_is_an_event(narrow):
    engine = narrow.model.engine
    forward = engine.forward
    calls = 0

    def failing(batch):
        nonlocal calls
        calls += 1
        if calls == 3:
            raise RuntimeError("the machine is on fire")
        return forward(batch)

    engine.forward = failing
    try:
        with narrow.client() as client:
            *_, last, rest = client.post(CHAT, json=ENDLESS).text.split("\n\n")
    finally:
        engine.forward = forward
    assert rest == ""
    found = json.loads(last.removeprefix("data: "))["error"]
    assert (found["type"], found["code"]) == ("server_error", "generation_failed")
    assert "on fire" not in found["message"]
    with narrow.client() as client:
        assert client.post(CHAT, json=HELLO).status_code == 200
    assert "RuntimeError: the machine is on fire" in narrow.log.getvalue()


def test_requests_of_all_kinds_leave_nothing_behind(server):
    """A small soak: what the big one does ten thousand times."""
    bodies = [
        json.dumps(HELLO | {"n": 2}).encode(),
        json.dumps(HELLO | {"stream": True, "max_tokens": 20}).encode(),
        b'{"messages": [',
        json.dumps(HELLO | {"temperature": 9}).encode(),
    ]

    def ask(number: int) -> None:
        body = bodies[number % len(bodies)]
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as opened:
            opened.sendall(
                f"POST {CHAT} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(body)}\r\n"
                "content-type: application/json\r\n\r\n".encode()
                + body
            )
            if number % 3 == 0:
                opened.shutdown(socket.SHUT_WR)
            if number % 5:
                opened.recv(100)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: idle(server))
    with server.client() as client:
        assert client.post(CHAT, json=HELLO).status_code == 200
        assert "maglio_requests_running 0.0" in client.get("/metrics").text
