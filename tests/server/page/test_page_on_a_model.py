"""The page in a browser, before the server itself."""

from __future__ import annotations

from typing import Any

import httpx

import maglio
from maglio.server.access.auth import Keys
from support.browser import Page
from support.http_server import Running, running


def set_fields(page: Page, **values: str) -> None:
    page.click("#show-settings")
    for name, value in values.items():
        field = page.one(f"#settings [name={name}]")
        field.clear()
        field.send_keys(value)
    page.click("#settings button")


def test_a_chat_is_shown_as_the_endpoint_gives_it(browser: Any, server: Running) -> None:
    page = Page(browser, server.url)
    assert page.text("#model") == "tiny"
    set_fields(page, maxTokens="48")
    page.ask("Say something.")
    body = {
        "messages": [{"role": "user", "content": "Say something."}],
        "temperature": 0,
        "max_tokens": 48,
    }
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, trust_env=False).json()
    said = page.js("return Object.values(localStorage).map(JSON.parse).find((c) => c.messages)")
    assert said["messages"][1]["content"] == answer["choices"][0]["message"]["content"]
    assert said["messages"][1]["figures"]["tokens"] == 48
    assert "The answer ended at the most tokens allowed" in page.text(".ending")
    assert len(page.all("#drafts-steps .step")) == said["messages"][1]["figures"]["forwards"]
    assert not page.problems()


def test_a_comparison_of_a_real_model_is_identical(browser: Any, server: Running) -> None:
    page = Page(browser, server.url)
    set_fields(page, temperature="0.8", maxTokens="64")
    page.ask("abcabcabcabcabc", button="#compare")
    assert "The texts are identical" in page.text(".verdict")


def test_the_page_needs_no_key_and_the_chat_does(browser: Any, tiny_chat: maglio.Model) -> None:
    with running(tiny_chat, keys=Keys(["right"])) as server:
        page = Page(browser, server.url)
        assert "asks for an API key" in page.text("#problem")
        page.ask("Say something.")
        assert "asks for an API key" in page.text("#problem")
        set_fields(page, key="right", maxTokens="4")
        page.wait(lambda: page.text("#model") == "tiny")
        page.click("#send")
        page.wait(lambda: page.all(".answer") and page.is_idle())
        assert "4 tokens" in page.text(".answer footer")
        browser.get("about:blank")


def test_a_chat_that_is_stopped_ends_on_the_server(browser: Any, server: Running) -> None:
    page = Page(browser, server.url)
    set_fields(page, maxTokens="400", temperature="1")
    page.one("#message").send_keys("Say something.\ue007")
    page.wait(lambda: page.text(".answer .content") or page.is_idle())
    page.driver.switch_to.active_element.send_keys("\ue00c")
    page.wait(page.is_idle)
    page.wait(lambda: server.service.stats.running == 0)
