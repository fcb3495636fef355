"""Nothing of one API key reaches another: no draft, no history, no cache of a prompt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maglio
from maglio.prefix_cache import PrefixCache
from maglio.server.access.auth import Keys
from maglio.server.streams.event import Began, Ended
from maglio.server.streams.pool import Pool, Ticket
from support.chat_model import chat_model
from support.http_server import Running, running

TEXT = "Tell me again of the cat that sat on a mat. " * 4
DRAFTING = {"speculative": {"gate": False}, "token_sources": True}
SAMPLED = {"temperature": 1, "seed": 7}  # greedily, a model without sense repeats itself


@pytest.fixture
def two(tiny_chat: maglio.Model) -> Iterator[Running]:
    """A server with two keys."""
    with running(tiny_chat, keys=Keys(["one", "two"])) as started:
        yield started


def ask(server: Running, key: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    headers = {"authorization": f"Bearer {key}"}
    with server.client(headers=headers) as client:
        answer: httpx.Response = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def chat(server: Running, key: str, **more: Any) -> tuple[str, int, set[str]]:
    """Text, cached tokens and sources of an answer."""
    body = {"messages": [{"role": "user", "content": TEXT}], "max_tokens": 40}
    body |= {**DRAFTING, **SAMPLED, **more}
    answer = ask(server, key, "/v1/chat/completions", body)
    choice = answer["choices"][0]
    sources = {piece["source"] for piece in choice["sources"]}
    cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    return choice["message"]["content"], cached, sources


def test_an_answer_to_one_key_leaves_nothing_for_another(two: Running) -> None:
    references = {"references": [chat(two, "one")[0] * 3]}
    chat(two, "one", **references)
    text, cached, sources = chat(two, "one")
    assert cached > 100
    assert "history" in sources
    other, none_cached, its_sources = chat(two, "two")
    assert other == text
    assert none_cached == 0
    assert not its_sources & {"history", "reference", "prediction"}
    again = chat(two, "two")
    assert (again[0], again[1] > 100, "history" in again[2]) == (text, True, True)


@pytest.mark.parametrize(
    ("path", "body", "cached"),
    [
        ("/v1/completions", {"prompt": TEXT},
         lambda a: a["usage"]["prompt_tokens_details"]["cached_tokens"]),
        ("/v1/messages", {"messages": [{"role": "user", "content": f"Now: {TEXT}"}]},
         lambda a: a["usage"]["cache_read_input_tokens"]),
        ("/v1/responses", {"input": f"Then: {TEXT}"},
         lambda a: a["usage"]["input_tokens_details"]["cached_tokens"]),
        ("/completion", {"prompt": f"Also: {TEXT}"}, lambda a: a["timings"]["cache_n"]),
    ],
)  # fmt: skip
def test_no_dialect_tells_what_another_key_has_sent(
    two: Running, path: str, body: dict[str, Any], cached: Any
) -> None:
    limit = "max_output_tokens" if path == "/v1/responses" else "max_tokens"
    body = {**body, limit: 4, "model": "tiny", "temperature": 0}
    assert cached(ask(two, "one", path, body)) == 0
    assert cached(ask(two, "one", path, body)) > 100
    assert cached(ask(two, "two", path, body)) == 0


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> maglio.Model:
    return chat_model(tmp_path_factory.mktemp("isolated"), n_ctx=512)


def told(model: maglio.Model, asked: list[tuple[str, int]]) -> dict[str, list[Any]]:
    """What each tenant is told of its requests, one after the other: cached tokens and text, and
    whether there was a history to draft from."""
    heard: dict[str, list[Any]] = {}
    fresh = maglio.Model(model.engine, model.tokenizer, chat_template="", path=None)
    pool = Pool(fresh, parallel=2, prefixes=PrefixCache(model.engine, max_bytes=1 << 30))
    for tenant, n in asked:
        request = maglio.Request(
            prompt=[50 + n % 3] * (90 + 13 * n),
            max_tokens=20,
            speculation=maglio.Speculation(gate=False),
        )
        events: list[Any] = []
        pool.add(Ticket(request, tenant, events.append))
        while pool.running or pool.waiting:
            pool.step()
        [began] = [event for event in events if isinstance(event, Began)]
        [ended] = [event for event in events if isinstance(event, Ended)]
        from_history = "history" in ended.generation.stats.sources
        heard.setdefault(tenant, []).append(
            (began.cached_tokens, ended.generation.text, from_history)
        )
    return heard


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), max_size=7))
def test_a_tenant_is_told_what_it_is_told_when_there_is_no_other(
    model: maglio.Model, asked: list[tuple[str, int]]
) -> None:
    together = told(model, asked)
    for tenant, heard in together.items():
        assert heard == told(model, [one for one in asked if one[0] == tenant])[tenant]


def test_a_kept_cache_of_one_key_is_not_read_by_another(
    tiny_chat: maglio.Model, tmp_path: Path
) -> None:
    ids = tiny_chat.tokenizer.encode(TEXT)
    kept = PrefixCache(tiny_chat.engine, max_bytes=1 << 28)
    pool = Pool(tiny_chat, parallel=1, prefixes=kept)
    pool.add(Ticket(maglio.Request(prompt=tuple(ids), max_tokens=4), "one", lambda _: None))
    while pool.running or pool.waiting:
        pool.step()
    assert kept.save(tmp_path)
    loaded = PrefixCache(tiny_chat.engine, max_bytes=1 << 28)
    loaded.load(tmp_path)
    assert loaded.take(ids, tenant="two").length == 0
    assert loaded.take(ids, tenant="one").length > 0
