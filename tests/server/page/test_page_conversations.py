"""Conversations on the page: asked, stopped, kept, exported and imported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.page_scripts import ENTER, ESCAPE, MIXED, SHIFT_ENTER, Open
from support.scripted_server import Script


def test_enter_sends_shift_enter_makes_a_line_and_escape_stops(page_of: Open) -> None:
    script = Script(answer=MIXED, is_endless=True)
    page = page_of(script)
    page.type("first", SHIFT_ENTER, "second", ENTER)
    page.wait(lambda: page.text(".answer .content") == "The cache keeps pages, it says.")
    assert script.requests[0]["messages"] == [{"role": "user", "content": "first\nsecond"}]
    assert page.one("#stop").is_displayed()
    page.type(ESCAPE)
    page.wait(page.is_idle)
    page.wait(script.was_left.is_set)
    assert page.text(".ending") == "Stopped."
    assert page.text(".answer .content") == "The cache keeps pages, it says."


def test_the_stop_button_stops_and_gives_the_focus_back(page_of: Open) -> None:
    page = page_of(Script(answer=(), is_endless=True))
    page.type("question", ENTER)
    page.wait(lambda: page.one("#stop").is_displayed())
    page.one("#stop").send_keys(ENTER)
    page.wait(page.is_idle)
    assert page.driver.switch_to.active_element == page.one("#message")
    assert page.one("#message").get_property("value") == "question"  # nothing had come
    assert not page.all("article")


def test_a_refused_message_comes_back_with_the_reason(page_of: Open) -> None:
    page = page_of(Script(refusal=(503, "the queue is full; try again later")))
    page.ask("question")
    assert page.text("#problem") == "the queue is full; try again later"
    assert page.one("#message").get_property("value") == "question"
    assert not page.all("article")
    assert not page.all("#conversation-list li")


def test_what_came_before_a_failure_is_kept(page_of: Open) -> None:
    page = page_of(Script(answer=MIXED, failure="the machine has no memory left"))
    page.ask("question")
    assert page.text("#problem") == "the machine has no memory left"
    assert page.text(".answer .content") == "The cache keeps pages, it says."
    assert page.text(".ending") == "the machine has no memory left"


def test_conversations_go_on_after_a_reload_and_can_be_deleted(page_of: Open) -> None:
    script = Script(answer=MIXED)
    page = page_of(script)
    page.ask("question one")
    page.driver.refresh()
    page.wait(lambda: page.all("#conversation-list .name"))
    page.click("#conversation-list .name")
    spans = page.all(".answer .content span")
    assert [span.get_attribute("data-source") for span in spans] == ["reference", "conversation"]
    page.ask("question two")
    assert [message["content"] for message in script.requests[1]["messages"]] == [
        "question one",
        "The cache keeps pages, it says.",
        "question two",
    ]
    page.click("#new-conversation")
    assert not page.all("article")
    page.click("#conversation-list li button:last-child")
    page.driver.switch_to.alert.accept()
    page.wait(lambda: not page.all("#conversation-list li"))
    assert page.js("return Object.keys(localStorage).filter((n) => n.includes('conv'))") == []


def test_an_answer_can_be_had_again(page_of: Open) -> None:
    script = Script(answer=MIXED)
    page = page_of(script)
    page.ask("question")
    page.click(".again")
    page.wait(lambda: len(script.requests) == 2 and page.is_idle())
    assert script.requests[0] == script.requests[1]
    assert len(page.all(".answer")) == 1


def test_exported_conversations_can_be_imported(page_of: Open, tmp_path: Path) -> None:
    page = page_of(Script(answer=MIXED))
    page.ask("question")
    exported = page.driver.execute_async_script(
        "import('./page/store.js').then(({ exported }) => arguments[0](exported()))"
    )
    (tmp_path / "kept.json").write_text(exported)
    other = page_of(Script())
    other.choose("#import-file", tmp_path / "kept.json")
    other.wait(lambda: other.all("#conversation-list .name"))
    other.click("#conversation-list .name")
    assert other.text(".answer .content") == "The cache keeps pages, it says."


@pytest.mark.parametrize(
    "damage",
    [
        lambda kept: kept["conversations"][0]["messages"].clear(),
        lambda kept: kept["conversations"][0]["messages"][0].update(content=7),
        lambda kept: kept["conversations"][0]["messages"][1].update(runs=[["model", -1]]),
        lambda kept: kept["conversations"][0]["messages"][1]["figures"].pop("seconds"),
        lambda kept: kept.update(conversations=[None]),
        lambda kept: kept.update(maglio=2),
    ],
)
def test_a_damaged_file_is_refused_whole(
    page_of: Open, tmp_path: Path, damage: Callable[[Any], None]
) -> None:
    page = page_of(Script(answer=MIXED))
    page.ask("question")
    kept = json.loads(
        page.driver.execute_async_script(
            "import('./page/store.js').then(({ exported }) => arguments[0](exported()))"
        )
    )
    damage(kept)
    (tmp_path / "kept.json").write_text(json.dumps(kept))
    page.choose("#import-file", tmp_path / "kept.json")
    page.wait(lambda: page.text("#problem"))
    assert "kept.json is not a file of conversations" in page.text("#problem")
    assert len(page.all("#conversation-list .name")) == 1
