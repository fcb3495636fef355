"""The page for a keyboard, a screen reader, a phone and weak eyes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.page_scripts import DROP, ESCAPE, MARKDOWN, MIXED, SHIFT_TAB, TAB, Open, words
from support.scripted_server import Script


def test_every_control_has_a_name_and_answers_are_announced(page_of: Open) -> None:
    page = page_of(Script(answer=MIXED))
    page.js(DROP, [["a.txt", list(b"text")]])
    page.wait(lambda: page.all("#references li"))
    page.ask("question", button="#compare")
    for where, least in (("body", 12), ("#settings", 8)):
        controls = page.all(f"{where} :is(button, input, select, textarea, summary, [role=log])")
        shown = [control for control in controls if control.is_displayed()]
        assert len(shown) >= least
        names = {
            c.get_attribute("outerHTML"): c.accessible_name.strip("\N{MULTIPLICATION SIGN}")
            for c in shown
        }
        assert [control for control, name in names.items() if name == ""] == []
        if where == "body":
            page.click("#show-settings")
    page.type(ESCAPE)
    assert page.one("#status").aria_role == "status"
    assert page.text("#status") == "The cache keeps pages, it says."
    assert page.one("#log").aria_role == "log"


def test_a_keyboard_reaches_every_control_and_the_focus_is_seen(page_of: Open) -> None:
    page = page_of(Script(answer=MIXED))
    page.ask("question")
    page.one("#speculative").send_keys(SHIFT_TAB)
    reached = []
    while (focused := page.driver.switch_to.active_element).tag_name != "body":
        outlined = focused if focused.get_attribute("id") != "speculative" else page.one(".track")
        assert outlined.value_of_css_property("outline-style") == "solid"
        reached.append(focused.get_attribute("id") or focused.accessible_name)
        assert len(reached) < 40
        page.type(TAB)
    assert reached == [
        "Skip to the message box",
        "speculative",
        "show-settings",
        "new-conversation",
        "question",
        "Delete question",
        "export",
        "import",
        "log",
        "Copy",
        "Answer again",
        "message",
        "add-reference",
        "compare",
        "send",
        page.one("#drafts summary").accessible_name,
    ]


@pytest.fixture
def phone(browser: Any) -> Iterator[None]:
    size = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    yield
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.usefixtures("phone")
def test_a_phone_shows_everything_without_scrolling_sideways(page_of: Open) -> None:
    page = page_of(Script(answer=[words((MARKDOWN + "long" * 200, "model"))]))
    page.ask("question " + "w" * 100, button="#compare")
    for selector in ("#message", "#send", "#compare", "#speculative + .track", "#show-settings"):
        box = page.one(selector).rect
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
        assert box["y"] + box["height"] <= 740
    assert page.js("return document.documentElement.scrollWidth") == 360
    log = page.one("#log")
    assert log.get_property("scrollWidth") == log.get_property("clientWidth")
    assert log.rect["height"] > 300
    assert not page.one("#conversations").is_displayed()
    page.click("#show-conversations")
    page.click("#new-conversation")
    assert not page.one("#conversations").is_displayed()
    assert not page.all("article")


CONTRASTS = """
const style = getComputedStyle(document.documentElement);
const probe = document.body.appendChild(document.createElement("i"));
function luminance(name) {
  probe.style.color = style.getPropertyValue(name);
  const [r, g, b] = getComputedStyle(probe).color.match(/[\\d.]+/g).map((c) => c / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
const found = {};
for (const [front, ground] of arguments[0]) {
  const [low, high] = [luminance(front), luminance(ground)].sort((a, b) => a - b);
  found[`${front} on ${ground}`] = (high + 0.05) / (low + 0.05);
}
return found;
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_from_its_ground(page_of: Open, theme: str) -> None:
    page = page_of(Script())
    page.js("document.documentElement.dataset.theme = arguments[0]", theme)
    grounds = ("--ground", "--panel", "--raised")
    pairs = [(f"--{front}", g) for front in ("text", "soft", "bad", "accent") for g in grounds]
    found = page.js(CONTRASTS, [*pairs, ("--on-accent", "--accent")])
    assert {pair: ratio for pair, ratio in found.items() if ratio < 4.5} == {}
    sources = ("conversation", "reference", "history", "recycling", "prediction", "grammar")
    lines = page.js(CONTRASTS, [(f"--{source}", "--ground") for source in sources])
    assert {pair: ratio for pair, ratio in lines.items() if ratio < 3} == {}
