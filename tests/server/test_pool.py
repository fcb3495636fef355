"""Many requests on one model: each gets, to the bit, what the library gives it alone."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maglio
from maglio.prefix_cache import PrefixCache
from maglio.server.streams.event import Began, Ended, Event, Wrote
from maglio.server.streams.pool import MIN_SHARED, Pool, Ticket
from support.chat_model import STOP, chat_model
from support.models import FAMILIES

WORDS = ("the cat ", "sat on ", "a mat. ", "then ", "it ran ", "home ", "again and ")
GRAMMARS = (
    None,
    maglio.Grammar.regex(r"(cat|dog|[0-9]{1,4})( (cat|dog|[0-9]{1,4}))*"),
    maglio.Grammar.json_schema(
        {
            "type": "object",
            "properties": {"name": {"type": "string", "maxLength": 5}, "n": {"type": "integer"}},
            "required": ["name", "n"],
            "additionalProperties": False,
        }
    ),
)


@dataclass
class Client:
    """Who asked for one request, and what was heard."""

    request: maglio.Request
    tenant: str
    events: list[Event] = field(default_factory=list)
    ticket: Ticket = field(init=False)

    @property
    def ended(self) -> bool:
        return bool(self.events) and isinstance(self.events[-1], Ended)

    @property
    def generation(self) -> maglio.Generation:
        last = self.events[-1]
        assert isinstance(last, Ended)
        return last.generation

    @property
    def tokens(self) -> list[maglio.TextToken]:
        return [t for event in self.events if isinstance(event, Wrote) for t in event.tokens]

    def join(self, pool: Pool) -> None:
        self.ticket = Ticket(self.request, self.tenant, self.events.append)
        pool.add(self.ticket)


def finish(pool: Pool) -> None:
    while pool.running or pool.waiting:
        pool.step()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("models")


@functools.cache
def model_of(folder: Path, family: str) -> maglio.Model:
    return chat_model(folder, family=family, n_ctx=512)


@functools.cache
def alone(model: maglio.Model, number: int) -> maglio.Generation:
    return model.generate(_requests(model)[number])


@functools.cache
def _requests(model: maglio.Model) -> list[maglio.Request]:
    """A varied set; those that are drawn are a part of it, so that each runs alone once."""
    rng = [3, 7, 1, 8, 2, 9, 4, 6, 0, 5]
    shared = "".join(WORDS) * 4
    made = []
    for n in range(24):
        text = (shared if n % 3 else "") + "".join(
            WORDS[(n * d) % len(WORDS)] for d in rng[: 2 + n % 5]
        )
        sampling = maglio.SamplingParams(
            temperature=(0.0, 0.8, 1.3)[n % 3],
            top_p=(1.0, 0.9)[n % 2],
            repeat_penalty=(1.0, 1.2)[n % 4 == 1],
            seed=n,
        )
        made.append(
            maglio.Request(
                prompt=tuple(model.tokenizer.encode(text)),
                max_tokens=(24, 1, 0, 40)[n % 4] if n % 5 else 24,
                sampling=sampling,
                stop=((), ("a",), ("th", "e "))[n % 3],
                speculation=(True, False, maglio.Speculation(source="record", gate=False))[n % 3],
                references=((), (text * 2,))[n % 2],
                prediction=(None, shared)[n % 4 == 3],
                grammar=GRAMMARS[n % len(GRAMMARS)] if n % 2 else None,
                logprobs=(None, 0, 2)[n % 3],
                show_control=n % 7 == 0,
            )
        )
    return made


@settings(max_examples=25, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("family", ["llama", "qwen35", "gemma3"])
def test_arrivals_cancels_and_caches_change_no_response(folder, family, data):
    model = model_of(folder, family)
    requests = _requests(model)
    prefixes = data.draw(
        st.sampled_from([None, 0, 200_000, 1 << 28]).map(
            lambda n: None if n is None else PrefixCache(model.engine, max_bytes=n)
        )
    )
    pool = Pool(model, parallel=data.draw(st.integers(1, 6)), prefixes=prefixes)
    clients: list[tuple[int, Client]] = []
    cancelled: set[int] = set()
    for _ in range(data.draw(st.integers(1, 14))):
        number = data.draw(st.integers(0, len(requests) - 1))
        client = Client(requests[number], data.draw(st.sampled_from(["a", "b"])))
        client.join(pool)
        clients.append((number, client))
        for _ in range(data.draw(st.integers(0, 5))):
            pool.step()
        if data.draw(st.booleans()) and data.draw(st.booleans()):
            victim = data.draw(st.integers(0, len(clients) - 1))
            if not clients[victim][1].ended:
                cancelled.add(victim)
            pool.cancel(clients[victim][1].ticket)
    finish(pool)
    for index, (number, client) in enumerate(clients):
        expected = alone(model, number)
        got = client.generation
        assert got.error is None
        assert sum(isinstance(event, Ended) for event in client.events) == 1
        n = len(got.tokens)
        assert got.tokens == expected.tokens[:n]
        assert got.logprobs == expected.logprobs[: len(got.logprobs)]
        if index not in cancelled:
            assert (got.tokens, got.text) == (expected.tokens, expected.text)
            assert got.finish_reason == expected.finish_reason
            assert got.logprobs == expected.logprobs
            assert "".join(token.text for token in client.tokens) == expected.text
            assert [token.id for token in client.tokens] == list(expected.tokens)


def test_a_prompt_that_others_read_waits_for_it_and_reads_only_the_rest(folder):
    model = model_of(folder, "llama")
    shared = tuple(model.tokenizer.encode("".join(WORDS) * 8))
    assert len(shared) > 2 * MIN_SHARED
    pool = Pool(model, parallel=8, prefixes=PrefixCache(model.engine, max_bytes=1 << 28))
    clients = [
        Client(maglio.Request(prompt=(*shared, 40 + n), max_tokens=3), "a") for n in range(5)
    ]
    for client in clients:
        client.join(pool)
    finish(pool)
    cached = [client.events[0].cached_tokens for client in clients]
    assert cached == [0, *[len(shared)] * 4]


@pytest.mark.parametrize("family", ["llama", "qwen35"])
def test_a_prompt_waits_for_what_it_shares_and_not_for_the_rest(folder, family):
    model = model_of(folder, family)
    shared = tuple(model.tokenizer.encode("".join(WORDS) * 3))
    assert MIN_SHARED < len(shared) < 128
    pool = Pool(model, parallel=8, prefixes=PrefixCache(model.engine, max_bytes=1 << 28))
    long = Client(maglio.Request(prompt=(*shared, *range(60, 260)), max_tokens=3), "a")
    short = Client(maglio.Request(prompt=(*shared, 40, 41), max_tokens=3), "a")
    long.join(pool)
    short.join(pool)
    while not short.events:
        pool.step()
    assert [type(event) for event in long.events] == [Began]  # its prompt is not read yet
    assert short.events[0].cached_tokens == (len(shared) if family == "llama" else 0)
    finish(pool)
    assert short.generation.tokens == model.generate(short.request).tokens
    assert long.generation.tokens == model.generate(long.request).tokens


def test_one_that_cannot_be_read_ends_alone(folder):
    model = model_of(folder, "llama")
    pool = Pool(model, parallel=4, prefixes=None)
    bad, good = (Client(maglio.Request(prompt=(5, n), max_tokens=5), "a") for n in (6, 7))
    bad.join(pool)
    good.join(pool)
    pool.step()

    def failing(token) -> None:
        raise MemoryError("no text")

    bad.ticket.started.reading.read = failing
    finish(pool)
    assert isinstance(bad.generation.error, MemoryError)
    assert good.generation.tokens == model.generate(good.request).tokens


def test_who_failed_just_before_the_engine_did_does_not_take_later_ones_along(folder, monkeypatch):
    model = model_of(folder, "llama")
    pool = Pool(model, parallel=4, prefixes=None)
    clients = [Client(maglio.Request(prompt=(5, n), max_tokens=5), "a") for n in (6, 7, 8)]
    for client in clients[:2]:
        client.join(pool)
    pool.step()

    def failing(*args, **kwargs) -> None:
        raise RuntimeError("the machine is on fire")

    with monkeypatch.context() as patched:
        patched.setattr(clients[0].ticket.started.reading.sequence, "plan", failing)
        patched.setattr(model.engine, "forward", failing)
        with pytest.raises(RuntimeError, match="on fire"):
            pool.step()
    pool.cancel_all(maglio.MaglioError("the engine failed"))
    clients[2].join(pool)
    finish(pool)
    assert clients[2].generation.tokens == model.generate(clients[2].request).tokens


def test_tenants_begin_by_turns(folder):
    pool = Pool(model_of(folder, "llama"), parallel=1, prefixes=None)
    order: list[str] = []
    for tenant in ("a", "a", "a", "b", "b", "c"):
        ticket = Ticket(
            maglio.Request(prompt=(5, 6), max_tokens=2),
            tenant,
            lambda event, tenant=tenant: order.append(tenant) if isinstance(event, Began) else None,
        )
        pool.add(ticket)
    finish(pool)
    assert order == ["a", "b", "c", "a", "b", "a"]


def test_nothing_of_one_tenant_reaches_another(folder):
    model = model_of(folder, "llama")
    prefixes = PrefixCache(model.engine, max_bytes=1 << 28)
    pool = Pool(model, parallel=2, prefixes=prefixes)
    request = maglio.Request(prompt=tuple(range(60, 200)), max_tokens=40)
    for tenant in ("one", "other", "one"):
        client = Client(request, tenant)
        client.join(pool)
        finish(pool)
        drafted_from = client.generation.stats.sources
        began = client.events[0]
        assert isinstance(began, Began)
        is_second = tenant == "one" and prefixes.stats.requests == 3
        assert began.cached_tokens == (139 if is_second else 0)
        assert ("history" in drafted_from) == is_second


def test_one_that_cannot_begin_ends_alone(folder):
    model = model_of(folder, "llama")
    pool = Pool(model, parallel=4, prefixes=None)

    class Broken(maglio.DraftSource):
        topk = -1

    bad = Client(
        maglio.Request(prompt=(5, 6), speculation=maglio.Speculation(source=lambda _: Broken())),
        "a",
    )
    good = Client(maglio.Request(prompt=(5, 6), max_tokens=5, stop_tokens=(STOP,)), "a")
    bad.join(pool)
    good.join(pool)
    finish(pool)
    assert isinstance(bad.generation.error, maglio.InvalidArgumentError)
    assert good.generation.tokens == model.generate(good.request).tokens


def test_the_families_of_these_tests_exist():
    assert {"llama", "qwen35", "gemma3"} <= set(FAMILIES)
