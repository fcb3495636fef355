"""Answers on the page: their sources, drafts, thoughts and markup."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.page_scripts import MARKDOWN, MIXED, Open, words
from support.scripted_server import Forward, Script


def test_an_answer_is_shown_in_the_colours_of_its_sources(page_of: Open, tmp_path: Path) -> None:
    page = page_of(Script(answer=MIXED))
    (tmp_path / "notes.txt").write_text("The cache keeps pages")
    page.choose("#reference-file", tmp_path / "notes.txt")
    page.wait(lambda: page.all("#references li"))
    page.ask("What does the cache do?")
    assert page.text(".answer .content") == "The cache keeps pages, it says."
    spans = page.all(".answer .content span")
    assert [(s.text, s.get_attribute("data-source")) for s in spans] == [
        ("cache keeps", "reference"),
        (", it", "conversation"),
    ]
    assert spans[0].get_attribute("title") == "reference notes.txt"
    colours = {span.value_of_css_property("text-decoration") for span in spans}
    assert len(colours) == 2
    assert "3 of 7 draft tokens accepted" in page.text(".answer footer")
    assert "prompt 12, 5 from the cache" in page.text(".answer footer")
    assert not page.problems()


def test_forwards_are_shown_with_what_was_accepted_and_rejected(page_of: Open) -> None:
    page = page_of(Script(answer=MIXED))
    page.ask("What?")
    columns = [
        [round(part.rect["height"] / 6.4) for part in step.find_elements("css selector", "*")]
        for step in page.all("#drafts-steps .step")
    ]
    assert columns == [[1, 0, 0], [1, 2, 3], [1, 1, 1]]  # own, accepted, rejected
    assert page.text("[data-figure=width]") == "2.0"
    assert page.text("[data-figure=accepted]") == "43%"
    rows = [row.text for row in page.all("#drafts-sources tr")]
    assert rows == ["model 3 50%", "reference:0 2 33%", "conversation 1 17%"]


def test_without_speculation_nothing_is_drafted(page_of: Open) -> None:
    script = Script(answer=MIXED)
    page = page_of(script)
    page.one("#speculative").send_keys(" ")
    page.ask("What?")
    assert [request["speculative"] for request in script.requests] == [False]
    assert not page.all(".answer .content span")
    page.driver.refresh()
    assert not page.one("#speculative").is_selected()


@pytest.mark.parametrize(
    ("plain", "verdict"),
    [
        (None, "The texts are identical (31 characters)."),
        ((words(("The cache loses", "model")),), "The texts differ from character 11 on."),
    ],
)
def test_a_comparison_asks_the_same_twice(
    page_of: Open, plain: tuple[Forward, ...] | None, verdict: str
) -> None:
    script = Script(answer=MIXED, plain=plain)
    page = page_of(script)
    page.ask("What?", button="#compare")
    first, second = script.requests
    assert (first.pop("speculative"), second.pop("speculative")) == (True, False)
    assert first == second
    assert isinstance(first["seed"], int)
    assert verdict in page.text(".verdict")
    rates = [cell.text for cell in page.all(".comparison .number")]
    assert len(rates) == 2
    assert rates[0] != "0.0"
    sections = len(page.all(".versions section"))
    assert sections == (1 if plain is None else 2)
    page.driver.refresh()
    page.wait(lambda: page.all("#conversation-list .name"))
    page.click("#conversation-list .name")
    assert verdict in page.text(".verdict")
    assert len(page.all(".versions section")) == sections


HOSTILE = (
    "<img src=x onerror=\"document.title='taken'\"> <script>document.title='taken'</script> "
    "[a](javascript:document.title='taken') ![b](x) [c](data:text/html,d) <b>bold</b>"
)


def test_text_of_a_model_never_becomes_markup(page_of: Open) -> None:
    page = page_of(Script(answer=[words((HOSTILE, "model")), words((f"\n\n- {HOSTILE}", "model"))]))
    page.ask(HOSTILE)
    assert HOSTILE in page.text(".user")
    assert page.text(".answer .content").count(HOSTILE) == 2
    assert not page.all("article img, article script, article b, article a")
    assert page.driver.title == "Maglio"
    assert not page.problems()


def test_thinking_is_apart_from_the_answer(page_of: Open) -> None:
    thought = Forward([("I see ", "model"), ("pages", "conversation")], 1, is_thought=True)
    page = page_of(Script(answer=[thought, words(("Pages.", "model"))]))
    page.ask("What?")
    assert page.text(".thinking .text") == "I see pages"
    assert page.text(".thinking span[data-source=conversation]") == "pages"
    assert not page.one(".thinking .text").is_displayed()
    page.click(".thinking summary")
    assert page.one(".thinking .text").is_displayed()
    assert page.text(".answer .content") == "Pages."


def test_markdown_becomes_elements(page_of: Open) -> None:
    page = page_of(Script(answer=[words((MARKDOWN, "model"))]))
    page.ask("What?")
    content = {
        selector: [e.get_property("textContent") for e in page.all(f".content {selector}")]
        for selector in ("h3", "em", "strong", "p code", "a", "ol > li", "ul li", "th", "td", "pre")
    }
    assert content == {
        "h3": ["Title"],
        "em": ["word"],
        "strong": ["two words"],
        "p code": ["code <i>"],
        "a": ["https://example.org/a_b"],
        "ol > li": ["one", "twoin two"],
        "ul li": ["in two"],
        "th": [" a ", " b "],
        "td": [" 1 ", " 2 "],
        "pre": ['def f():\n    return "**no**"'],
    }
    assert len(page.all(".content hr")) == 1
    assert page.text(".content blockquote") == "said"
    assert page.one(".content a").get_attribute("rel") == "noopener noreferrer"


GROWS_AS_WHOLE = """
const [done] = [arguments[0]];
import("./page/messages.js").then(({ GrowingText }) => {
  const parts = ["# ", "*", "**", "`", "```", "\\n", "\\n\\n", "- ", "1. ", "  ", "> ", "|", "|-|",
                 "[a](https://b.c)", "https://d.e/f", "_", "<i>", "word", " ", "---", "~~~", "é😀"];
  let state = 7;
  const random = (n) => (state = (state * 48271) % 2147483647) % n;
  const wrong = [];
  for (let round = 0; round < 400; round++) {
    const pieces = Array.from({ length: 1 + random(24) }, () => parts[random(parts.length)]);
    const text = pieces.join("");
    const runs = pieces.map((piece, i) => [i % 3 ? "model" : "history", piece.length]);
    const whole = document.createElement("div"), grown = document.createElement("div");
    new GrowingText(whole).update(text, runs, []);
    const growing = new GrowingText(grown);
    for (let end = 1; end <= pieces.length; end++) {
      growing.update(pieces.slice(0, end).join(""), runs.slice(0, end), []);
    }
    const letters = (t) => t.replace(/[^\\p{L}]/gu, "");
    const hidden = /^ {0,3}(```|~~~)/m.test(text); // the language of code is shown elsewhere
    if (whole.outerHTML !== grown.outerHTML) wrong.push(["grown", text]);
    else if (!hidden && !text.includes("](") && letters(whole.textContent) !== letters(text)) {
      wrong.push(["lost", text]);
    }
  }
  done(wrong);
}, (error) => done([String(error)]));
"""


def test_text_that_grows_looks_as_the_whole_does_and_loses_no_letter(page_of: Open) -> None:
    page = page_of(Script())
    assert page.driver.execute_async_script(GROWS_AS_WHOLE) == []
