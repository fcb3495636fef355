"""Fixtures of the page's tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from support.browser import Page
from support.page_scripts import Open
from support.scripted_server import Script, scripted_app
from support.serving import served


@pytest.fixture
def page_of(browser: Any) -> Iterator[Open]:
    """Opens the page of a server with a script; every server is another origin."""
    with ExitStack() as open_servers:

        def opened(script: Script) -> Page:
            browser.get_log("browser")
            return Page(browser, open_servers.enter_context(served(scripted_app(script))))

        yield opened
        browser.get("about:blank")
