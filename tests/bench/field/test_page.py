"""The report as a page: what a browser shows of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from maglio.bench.field.html import html
from maglio.bench.field.line import Contestant, FieldTask
from maglio.bench.field.results import FieldResults
from maglio.bench.field.summary import Summary, summarise
from support.browser import open_browser
from support.field_results import CONTESTANTS, TASKS, failed, field_runs, growth, header, run

HOSTILE = '"><img src=x onerror="document.title=1"><script>document.title=1</script>'


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as opened:
        yield opened


def summary_of(**changes: Any) -> Summary:
    runs = tuple(field_runs())
    memory = {"maglio": 123_000_000, "theirs-plain": 456_000_000}
    return summarise(FieldResults(header(**changes), runs, memory, tuple(growth())))


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Iterator[Any]:
    path = tmp_path / "report.html"
    path.write_text(html(summary_of()))
    browser.get_log("browser")
    browser.set_window_size(1280, 900)
    browser.get(path.as_uri())
    yield browser
    assert browser.get_log("browser") == []


def column(page: Any, name: str, number: int) -> list[str]:
    rows = page.find_elements("css selector", f"#{name} ~ .scroll tbody tr")
    return [row.find_elements("css selector", "th, td")[number].text for row in rows]


def test_a_page_needs_nothing_else() -> None:
    text = html(summary_of())
    assert "://" not in text
    assert not re.search(r"(src|srcset|@import|url\()\s*=?", text.split("</style>")[1])
    assert len(text) < 100_000
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy[1]


def test_tables_are_sorted_by_a_key(page: Any) -> None:
    before = column(page, "task-0", 2)
    assert before == ["100", "200", "50.0", "71.7", "100", "129", "50.0", "56.8"]
    button = page.find_elements("css selector", "#task-0 ~ .scroll thead button")[2]
    page.execute_script("arguments[0].focus()", button)
    button.send_keys("\ue007")
    rates = ["200", "129", "100", "100", "71.7", "56.8", "50.0", "50.0"]
    assert column(page, "task-0", 2) == rates
    heading = button.find_element("xpath", "..")
    assert heading.get_attribute("aria-sort") == "descending"
    button.send_keys(" ")
    assert column(page, "task-0", 2) == rates[::-1]
    assert heading.get_attribute("aria-sort") == "ascending"
    page.find_elements("css selector", "#task-0 ~ .scroll thead button")[0].click()
    assert column(page, "task-0", 0) == sorted(column(page, "task-0", 0))
    assert heading.get_attribute("aria-sort") is None


def test_rows_without_a_number_stay_last_and_feet_stay_feet(page: Any) -> None:
    button = page.find_elements("css selector", "#task-0 ~ .scroll thead button")[3]
    for _ in range(2):
        button.click()
        assert column(page, "task-0", 3)[-4:] == ["-"] * 4
    button = page.find_element("css selector", ".curve thead button")
    button.click()
    rows = page.find_elements("css selector", ".curve:nth-of-type(1) tr th:first-child")
    assert [row.text for row in rows][-5:] == ["4,096", "1,024", "256", "grew as", "expected"]


@pytest.mark.parametrize("width", [360, 1280])
def test_a_page_is_as_wide_as_the_screen(page: Any, width: int) -> None:
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    try:
        assert page.execute_script(OVERFLOW) <= 0
        narrow = page.execute_script(
            "return [...document.querySelectorAll('.track, svg.growth')]"
            ".map((each) => each.getBoundingClientRect().width).filter((width) => width < 60)"
        )
        assert narrow == []
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


OVERFLOW = "const e = document.documentElement; return e.scrollWidth - e.clientWidth"

CONTRASTS = """
const luminance = (colour) => {
  const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map((part) => {
    const share = part / 255;
    return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = luminance(getComputedStyle(document.body).backgroundColor);
const contrast = (colour) => {
  const [dark, light] = [ground, luminance(colour)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
};
return [...document.querySelectorAll("body, p, .note, .track rect, .growth .line, .growth text")]
  .map((each) => {
    const style = getComputedStyle(each);
    const isPicture = each.namespaceURI.endsWith("svg") && each.localName !== "text";
    const colour = isPicture ? style.stroke : each.localName === "text" ? style.fill : style.color;
    return [each.getAttribute("class") || each.localName, contrast(colour), isPicture ? 3 : 4.5];
  }).filter(([, is, least]) => is < least);
"""


def test_light_and_dark_pages_can_be_read(page: Any) -> None:
    grounds = set()
    try:
        for scheme in ("light", "dark"):
            feature = {"name": "prefers-color-scheme", "value": scheme}
            page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
            grounds.add(page.execute_script("return getComputedStyle(document.body).background"))
            assert page.execute_script(CONTRASTS) == []
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert len(grounds) == 2


def test_text_of_a_file_never_becomes_markup(browser: Any, tmp_path: Path) -> None:
    task = FieldTask(HOSTILE, HOSTILE, 1, HOSTILE)
    entry = Contestant(HOSTILE, HOSTILE, "plain", {HOSTILE: HOSTILE}, HOSTILE, None)
    runs = (run(HOSTILE, 1.0, task=HOSTILE), failed("maglio", HOSTILE, task=HOSTILE))
    entries = (*CONTESTANTS, entry)
    results = FieldResults(
        header(tasks=(*TASKS, task), contestants=entries, started=HOSTILE), runs, {}, ()
    )
    path = tmp_path / "hostile.html"
    path.write_text(html(summarise(results)))
    browser.get_log("browser")
    browser.get(path.as_uri())
    assert browser.title.startswith("Maglio and the field")
    assert not browser.find_elements("css selector", "img, body > script + *, main script")
    assert browser.get_log("browser") == []


def test_bars_are_as_long_as_speeds_and_ranges_lie_where_they_should(page: Any) -> None:
    rows = page.find_elements("css selector", "#task-0 ~ .charts figure:first-child li")
    shown = {
        row.find_element("css selector", ".name").text: row.find_element(
            "css selector", "rect"
        ).rect["width"]
        for row in rows
    }
    assert list(shown) == ["maglio", "maglio-plain", "theirs-ngram", "theirs-plain"]
    assert shown["maglio-plain"] == pytest.approx(shown["maglio"] / 2, rel=0.02)
    for row in page.find_elements("css selector", ".ranges li"):
        line = row.find_element("css selector", ".range").rect
        dot = row.find_element("css selector", "circle").rect
        middle = dot["x"] + dot["width"] / 2
        assert line["x"] - 1 <= middle <= line["x"] + line["width"] + 1
        one = row.find_element("css selector", ".one").rect["x"]
        is_loss = "behind" in row.find_element("css selector", "circle").get_attribute("class")
        assert (middle < one) is is_loss
