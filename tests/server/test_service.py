"""The thread around the pool: bounds, cancelling, closing."""

from __future__ import annotations

import asyncio
import gc
import io
import threading
import weakref

import pytest

import maglio
from maglio.errors import ContextFullError, GrammarError, InvalidArgumentError
from maglio.server.settings import Settings
from maglio.server.state import ServerState
from maglio.server.streams.event import Began, Ended, Wrote
from maglio.server.streams.service import (
    EngineFailedError,
    Service,
    ServiceBusyError,
    ServiceClosedError,
)
from maglio.server.task.running import Running
from maglio.server.telemetry.record import Record
from maglio.server.telemetry.request_log import RequestLog
from support.chat_model import chat_model

PREDICTION = {"type": "content", "content": "the cat sat on a mat"}


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> maglio.Model:
    return chat_model(tmp_path_factory.mktemp("models"), n_ctx=2048)


def endless(model: maglio.Model, **options) -> maglio.Request:
    sampling = maglio.SamplingParams(ignore_eos=True, temperature=1.0)
    return maglio.Request(prompt="the cat ", max_tokens=1900, sampling=sampling, **options)


class Listener:
    """Hears events and can wait for them."""

    def __init__(self) -> None:
        self.events: list = []
        self.wrote = threading.Event()
        self.ended = threading.Event()

    def __call__(self, event) -> None:
        self.events.append(event)
        if isinstance(event, Wrote):
            self.wrote.set()
        if isinstance(event, Ended):
            self.ended.set()

    def result(self) -> maglio.Generation:
        assert self.ended.wait(60)
        return self.events[-1].generation


def test_a_response_is_that_of_the_library(model):
    service = Service(model)
    requests = [maglio.Request(prompt=f"the cat {n}", max_tokens=20) for n in range(30)]
    heard = [Listener() for _ in requests]
    for request, listener in zip(requests, heard, strict=True):
        service.submit(request, tenant="a", deliver=listener)
    for request, listener in zip(requests, heard, strict=True):
        assert listener.result().tokens == model.generate(request).tokens
    service.close()
    assert service.stats.running == service.stats.waiting == 0
    assert service.stats.streams >= service.stats.steps > 0


def test_more_than_may_wait_are_refused_until_one_has_ended(model):
    service = Service(model, parallel=1, queue=1)
    first, second = Listener(), Listener()
    ticket = service.submit(endless(model), tenant="a", deliver=first)
    service.submit(maglio.Request(prompt="x", max_tokens=1), tenant="a", deliver=second)
    with pytest.raises(ServiceBusyError, match="1 requests are running and 1 are waiting"):
        service.submit(endless(model), tenant="a", deliver=Listener())
    service.cancel(ticket)
    assert first.result().finish_reason is None
    assert len(second.result().tokens) == 1
    third = Listener()
    service.submit(maglio.Request(prompt="x", max_tokens=1), tenant="a", deliver=third)
    third.result()
    service.close()


def test_what_can_never_work_is_refused_at_once(model):
    service = Service(model)
    bad = {
        ContextFullError: maglio.Request(prompt="a " * 5000),
        InvalidArgumentError: maglio.Request(prompt=""),
        GrammarError: maglio.Request(prompt="a", grammar=maglio.Grammar.regex("(")),
    }
    for error, request in bad.items():
        with pytest.raises(error):
            service.submit(request, tenant="a", deliver=Listener())
    with pytest.raises(InvalidArgumentError):
        service.submit(maglio.Request(prompt=(10**6,)), tenant="a", deliver=Listener())
    service.close()


def test_closing_lets_requests_end_and_then_ends_them(model):
    service = Service(model, parallel=2)
    quick, slow, waiting = Listener(), Listener(), Listener()
    service.submit(maglio.Request(prompt="x", max_tokens=3), tenant="a", deliver=quick)
    service.submit(endless(model), tenant="a", deliver=slow)
    service.submit(endless(model), tenant="a", deliver=waiting)
    assert slow.wrote.wait(60)
    assert quick.ended.wait(60)
    service.close(grace=0.0)
    assert quick.result().error is None
    assert isinstance(slow.result().error, ServiceClosedError)
    assert isinstance(waiting.result().error, ServiceClosedError)
    with pytest.raises(ServiceClosedError):
        service.submit(endless(model), tenant="a", deliver=Listener())
    service.close()


def test_leaving_the_iterator_cancels(model):
    service = Service(model, parallel=1)
    state = ServerState(service, Settings(names=("x",)), RequestLog("off", io.StringIO()))

    async def leave() -> list[str]:
        kinds = []
        async with Running([endless(model)], state, Record("POST", "/")) as running:
            async for _, event in running.events():
                kinds.append(type(event).__name__)
                if isinstance(event, Wrote):
                    break
        request = maglio.Request(prompt="x", max_tokens=1)
        async with Running([request], state, Record("POST", "/")) as running:
            return [*kinds, *[type(event).__name__ async for _, event in running.events()]]

    kinds = asyncio.run(leave())
    assert kinds[0] == Began.__name__
    assert kinds[-3:] == ["Began", "Wrote", "Ended"]
    service.close()


def test_an_engine_that_fails_ends_what_was_asked_and_no_more(model, monkeypatch):
    service = Service(model)
    forward = model.engine.forward
    fails = [True]

    def failing(batch):
        if fails.pop() if fails else False:
            raise RuntimeError("the machine is on fire")
        return forward(batch)

    monkeypatch.setattr(model.engine, "forward", failing)
    first, second = Listener(), Listener()
    service.submit(maglio.Request(prompt="x", max_tokens=3), tenant="a", deliver=first)
    error = first.result().error
    assert isinstance(error, EngineFailedError)
    assert "on fire" in str(error.__cause__)
    assert "on fire" not in str(error)
    service.submit(maglio.Request(prompt="x", max_tokens=3), tenant="a", deliver=second)
    assert second.result().error is None
    service.close()


def test_one_whose_listener_fails_ends_and_the_others_go_on(model):
    service = Service(model)
    heard = []

    def broken(event) -> None:
        heard.append(type(event))
        raise ValueError("nobody is here")

    request = maglio.Request(prompt="the cat ", max_tokens=20)
    good = Listener()
    service.submit(endless(model), tenant="a", deliver=broken)
    service.submit(request, tenant="a", deliver=good)
    assert good.result().tokens == model.generate(request).tokens
    service.close(grace=60.0)  # ends as soon as nothing runs
    assert heard[0] is Began
    assert heard[-1] is Ended
    assert service.stats.tokens < 1900


def test_an_order_that_fails_does_not_end_the_thread(model, monkeypatch):
    service = Service(model)
    first, second = Listener(), Listener()
    ticket = service.submit(endless(model), tenant="a", deliver=first)
    assert first.wrote.wait(60)
    cancel, fails = service._pool.cancel, [True]

    def failing(*args) -> None:
        if fails and args[0] is ticket:
            fails.clear()
            raise RuntimeError("the machine is on fire")
        cancel(*args)

    monkeypatch.setattr(service._pool, "cancel", failing)
    service.cancel(ticket)
    assert "on fire" in str(first.result().error.__cause__)
    service.submit(maglio.Request(prompt="x", max_tokens=3), tenant="a", deliver=second)
    assert second.result().error is None
    service.close()


def test_what_has_ended_is_let_go_of_at_once(server, monkeypatch):
    """Python looks for cycles late: it does not know how much memory the core holds."""
    started: list[weakref.ref] = []
    start = server.model.start

    def noted(request, *, cache):
        found = start(request, cache=cache)
        started.append(weakref.ref(found.reading.sequence))
        return found

    monkeypatch.setattr(server.model, "start", noted)
    hello = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}
    gc.disable()
    try:
        with server.client() as client:
            for more in ({}, {"stream": True}, {"n": 3}, {"grammar": 'root ::= "a" [0-9]+'}):
                assert client.post("/v1/chat/completions", json=hello | more).status_code == 200
            prompt = {"prompt": "x", "max_tokens": 4, "prediction": PREDICTION}
            assert client.post("/v1/completions", json=prompt).status_code == 200
            with client.stream("POST", "/v1/completions", json=prompt | {"stream": True}) as left:
                next(left.iter_lines())
        with server.client() as client:  # by then the one who left is known to have left
            assert client.get("/health").status_code == 200
            for _ in range(600):
                if all(one() is None for one in started):
                    break
                client.get("/health")
        assert [one() for one in started] == [None] * 8
    finally:
        gc.enable()
