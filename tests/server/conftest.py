"""Fixtures of the server's tests: one tiny model, and a server on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import maglio
from support.browser import open_browser
from support.chat_model import chat_model
from support.http_server import Running, running

pytest.importorskip("starlette", reason="the extra [server] is not installed")


@pytest.fixture(scope="session")
def tiny_chat(tmp_path_factory: pytest.TempPathFactory) -> maglio.Model:
    """A tiny model that can chat."""
    return chat_model(tmp_path_factory.mktemp("server"), n_ctx=2048)


@pytest.fixture(scope="session")
def server(tiny_chat: maglio.Model) -> Iterator[Running]:
    """A server on it, without keys."""
    with running(tiny_chat, names=("tiny", "gpt-*")) as started:
        yield started


@pytest.fixture
def client(server: Running) -> Iterator[httpx.Client]:
    with server.client() as opened:
        yield opened


@pytest.fixture(scope="session")
def smollm() -> Iterator[Running]:
    """A server on a real model."""
    with running(maglio.load(n_ctx=2048), names=("smollm",)) as started:
        yield started


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A browser; tests that use it are skipped where there is none."""
    with open_browser() as opened:
        yield opened
