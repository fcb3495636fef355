"""References and settings on the page."""

from __future__ import annotations

import pytest

from support.browser import Page
from support.page_scripts import DROP, ENTER, Open
from support.scripted_server import Script


def test_dropped_texts_are_sent_as_references(page_of: Open) -> None:
    script = Script()
    page = page_of(script)
    files = [["a.txt", list(b"first text")], ["b.py", list("größe = 1\n".encode())]]
    assert page.js(DROP, files) == ""
    page.wait(lambda: len(page.all("#references li")) == 2)
    page.ask("question")
    assert script.requests[0]["references"] == ["first text", "größe = 1\n"]
    assert [message["content"] for message in script.requests[0]["messages"]] == ["question"]
    page.click("#references li:first-child button[aria-label^=Insert]")
    assert page.one("#message").get_property("value") == "a.txt:\n```\nfirst text\n```\n"
    page.click("#references li:first-child button[aria-label^=Remove]")
    page.one("#message").send_keys(ENTER)
    page.wait(lambda: len(script.requests) == 2 and page.is_idle())
    assert script.requests[1]["references"] == ["größe = 1\n"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff\xfe\x00", "x.bin is not a text file in UTF-8."),
        (b"a\0b", "x.bin is not a text file in UTF-8."),
        (b"  \n", "x.bin is empty."),
    ],
)
def test_other_files_are_refused_as_references(page_of: Open, content: bytes, reason: str) -> None:
    page = page_of(Script())
    page.js(DROP, [["x.bin", list(content)]])
    page.wait(lambda: page.text("#problem"))
    assert page.text("#problem") == reason
    assert not page.all("#references li")


def set_field(page: Page, name: str, value: str) -> None:
    field = page.one(f"#settings [name={name}]")
    field.clear()
    field.send_keys(value)


def test_settings_are_sent_and_the_key_stays_in_the_tab(page_of: Open) -> None:
    script = Script(key="secret-key")
    page = page_of(script)
    assert page.text("#problem") == "The server asks for an API key. Enter it in the settings."
    page.click("#show-settings")
    set_field(page, "system", "Be short.")
    set_field(page, "temperature", "0.7")
    set_field(page, "maxTokens", "99")
    set_field(page, "key", "secret-key")
    page.click("#settings button")
    page.wait(lambda: page.text("#model") == "scripted-model")
    assert page.text("#problem") == ""
    page.ask("question")
    request = script.requests[0]
    assert request["messages"][0] == {"role": "system", "content": "Be short."}
    assert (request["temperature"], request["max_tokens"]) == (0.7, 99)
    assert request["model"] == "scripted-model"
    assert "secret-key" not in page.js("return JSON.stringify(localStorage)")
    page.driver.refresh()
    page.wait(lambda: page.text("#model"))
    assert page.one("[name=temperature]").get_property("value") == "0.7"
