"""A server on a port of this machine, in a thread: for clients that are not ours.

Boundary: starts and stops it; knows no test.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from maglio.model import Model
from maglio.prefix_cache import PrefixCache
from maglio.server.app import create_app
from maglio.server.serving import Server, open_socket, url_of
from maglio.server.settings import Settings
from maglio.server.streams.service import Service
from maglio.server.telemetry.request_log import RequestLog


@dataclass
class Running:
    """A server that runs."""

    url: str
    model: Model
    service: Service
    settings: Settings
    log: io.StringIO

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60, trust_env=False, **options)


@contextlib.contextmanager
def running(
    model: Model,
    *,
    parallel: int = 4,
    queue: int = 64,
    cached: bool = True,
    log_format: str = "json",
    **settings: Any,
) -> Iterator[Running]:
    """Run a server; it is called ``tiny`` where nothing else is said."""
    prefixes = PrefixCache(model.engine, max_bytes=64 << 20) if cached else None
    service = Service(model, parallel=parallel, queue=queue, prefixes=prefixes)
    options = Settings(**{"names": ("tiny",), **settings})
    log = io.StringIO()
    app = create_app(service, options, RequestLog(log_format, log))
    has_started = threading.Event()
    server = Server(app, service, grace=0.0, on_start=has_started.set)
    bound = open_socket("127.0.0.1", 0)
    bound.listen()  # who comes before the thread has started waits
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[bound])))
    thread.start()
    try:
        assert has_started.wait(60)
        yield Running(url_of(bound), model, service, options, log)
    finally:
        server.should_exit = True
        thread.join()
        bound.close()
