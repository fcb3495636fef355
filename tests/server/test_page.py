"""The page in a browser, before a server that says what a test wants."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from maglio.server import page as page_module
from support.browser import Page
from support.scripted_server import Forward, Script, scripted_app
from support.serving import served

ENTER, TAB, ESCAPE = "\ue007", "\ue004", "\ue00c"
SHIFT_ENTER = "\ue008\ue007\ue000"  # pressed, and let go
SHIFT_TAB = "\ue008\ue004\ue000"

Open = Callable[[Script], Page]


@pytest.fixture
def page_of(browser: Any) -> Iterator[Open]:
    """Opens the page of a server with a script; every server is another origin."""
    with ExitStack() as open_servers:

        def opened(script: Script) -> Page:
            browser.get_log("browser")
            return Page(browser, open_servers.enter_context(served(scripted_app(script))))

        yield opened
        browser.get("about:blank")


def words(*pieces: tuple[str, str], drafted: int = 0) -> Forward:
    return Forward(pieces, drafted=drafted)


MIXED = (
    words(("The ", "model")),
    words(("cache ", "reference:0"), ("keeps ", "reference:0"), ("pages", "model"), drafted=5),
    words((", it ", "conversation"), ("says.", "model"), drafted=2),
)


def test_files_come_with_a_policy_that_allows_this_server_alone() -> None:
    with served(scripted_app(Script())) as address:
        answer = urlopen(f"{address}/")
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        policy = answer.headers["Content-Security-Policy"].split("; ")
        assert "default-src 'none'" in policy
        assert "require-trusted-types-for 'script'" in policy
        assert not any("http" in rule or "unsafe" in rule for rule in policy)
        script = urlopen(f"{address}/page/app.js")
        assert script.headers["Content-Type"] == "text/javascript; charset=utf-8"
        known = Request(f"{address}/page/app.js", headers={"If-None-Match": script.headers["ETag"]})
        with pytest.raises(HTTPError, match="304"):
            urlopen(known)
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"{address}/page/../page.py")


def test_the_policy_is_the_documented_one() -> None:
    documented = (Path(__file__).parents[2] / "docs/server-dialects.md").read_text()
    assert page_module.CONTENT_SECURITY_POLICY in " ".join(documented.split())


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


MARKDOWN = """\
# Title
A *word*, **two words**, `code <i>`, and
https://example.org/a_b.

1. one
2. two
   - in two

> said

```python
def f():
    return "**no**"
```

| a | b |
|---|---|
| 1 | 2 |

---
"""


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


DROP = """
const data = new DataTransfer();
for (const [name, content] of arguments[0]) {
  data.items.add(new File([Uint8Array.from(content)], name));
}
for (const type of ["dragover", "drop"]) {
  const event = new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true });
  document.body.dispatchEvent(event);
  if (!event.defaultPrevented) return "the browser would open the file";
}
return "";
"""


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
