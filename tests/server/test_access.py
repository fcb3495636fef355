"""Who may use a server: keys, web pages, names of the host."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import pytest

from maglio.errors import InvalidArgumentError
from maglio.server.access.auth import Keys
from maglio.server.access.origin import Origins, is_loopback
from support.http_server import Running, running

HELLO = {"messages": [{"role": "user", "content": "a tale of a key " * 8}], "max_tokens": 2}
PAGE = "https://pages.example"


@pytest.fixture(scope="module")
def locked(tiny_chat) -> Iterator[Running]:
    with running(
        tiny_chat, keys=Keys(["first", "second"]), origins=Origins([PAGE], ["127.0.0.1"])
    ) as started:
        yield started


def post(server, key=None, **headers):
    if key is not None:
        headers["authorization"] = f"Bearer {key}"
    with server.client(headers=headers) as client:
        return client.post("/v1/chat/completions", json=HELLO)


@pytest.mark.parametrize("key", [None, "third", "firs", "firstt", "Bearer first"])
def test_without_one_of_the_keys_nothing_is_served(locked, key):
    refused = post(locked, key)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    error = refused.json()["error"]
    assert error["code"] == "invalid_api_key"
    assert "first" not in error["message"]


@pytest.mark.parametrize(
    "path", ["/v1/models", "/props", "/metrics", "/v1/completions", "/nothing", "/v1/models/tiny"]
)
def test_no_path_but_health_is_open(locked, path):
    with locked.client() as client:
        assert client.get(path).status_code == 401
        assert client.get("/health").json() == {"status": "ok"}


def test_each_key_has_a_cache_of_its_own(locked):
    def cached(answer):
        return answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert cached(post(locked, "first")) == 0
    assert cached(post(locked, "first")) > 0
    assert cached(post(locked, "second")) == 0
    assert cached(post(locked, **{"x-api-key": "second"})) > 0


def test_the_log_names_tenants_and_no_key(locked):
    post(locked, "first")
    assert "first" not in locked.log.getvalue().replace("first_token_ms", "")
    tenant = hashlib.sha256(b"first").hexdigest()[:8]
    assert f'"tenant": "{tenant}"' in locked.log.getvalue()


def test_a_request_that_was_refused_is_nobodys(locked):
    refused = post(locked, "third")
    post(locked, "first")  # by now the line of the other is written
    lines = map(json.loads, locked.log.getvalue().splitlines())
    [line] = [line for line in lines if line["id"] == refused.headers["x-request-id"]]
    assert line["error"] == "invalid_api_key"
    assert "tenant" not in line


def test_a_page_that_is_named_may_use_it(locked):
    answer = post(locked, "first", origin=PAGE)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == PAGE
    with locked.client() as client:
        asked = {"origin": PAGE, "access-control-request-method": "POST"}
        asked["access-control-request-headers"] = "authorization,content-type"
        preflight = client.options("/v1/chat/completions", headers=asked)
    assert preflight.status_code == 200
    assert "authorization" in preflight.headers["access-control-allow-headers"]


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://[", "//[x]", ""]
)
def test_other_pages_may_not(locked, server, origin):
    for one in (locked, server):
        refused = post(one, "first", origin=origin)
        assert refused.status_code == 403
        assert refused.json()["error"]["code"] == "origin_not_allowed"
        assert "access-control-allow-origin" not in refused.headers


def test_its_own_page_may(server):
    assert post(server, origin=server.url).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_a_server_of_this_machine_is_called_by_its_own_names_alone(locked, host):
    refused = post(locked, "first", host=host)
    assert refused.status_code == 403
    assert refused.json()["error"]["code"] == "host_not_allowed"


@pytest.mark.parametrize("host", ["localhost:8080", "LOCALHOST", "[::1]:80", "a.localhost"])
def test_and_these_are_its_names(locked, host):
    assert post(locked, "first", host=host).status_code == 200


def test_what_is_this_machine_alone():
    names = ["127.0.0.1", "::1", "localhost", "0.0.0.0", "::", "192.168.1.1", "example.com"]
    assert [is_loopback(name) for name in names] == [True, True, True] + [False] * 4


@pytest.mark.parametrize("key", ["", " ", "a\nb", "é", "x" * 513])
def test_a_key_that_no_header_can_hold_is_refused(key):
    with pytest.raises(InvalidArgumentError, match="API key"):
        Keys([key])


@pytest.mark.parametrize("origin", ["example.com", "https://example.com/", "", "http://["])
def test_an_origin_has_a_scheme_and_no_path(origin):
    with pytest.raises(InvalidArgumentError, match="--cors"):
        Origins([origin])
