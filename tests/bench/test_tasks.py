"""Tasks are run plainly and speculatively by turns, compared, and reported."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

import maglio
from bench.samples import QUESTION, write_lines
from maglio.bench.report import color_of, html_report
from maglio.bench.tasks import BUILT_IN, SAMPLED, Task, TaskResult, asked, run_task, summarise
from maglio.cli.app import app
from maglio.decode.stats import StatsRecorder
from maglio.economics.cost import NATIVE_COST, CostCurve
from maglio.economics.probe import Spread
from maglio.errors import InvalidArgumentError, MaglioError
from maglio.generation import TextToken
from support.real_models import real_model_path

HOW = maglio.Speculation(history=False)


@pytest.fixture(scope="module")
def model() -> maglio.Model:
    return maglio.load(real_model_path("smollm2-135m"), n_ctx=512, threads=1)


def result(group: str, *ratios: float, equal: bool = True, tokens=()) -> TaskResult:
    stats = StatsRecorder(steps=1, committed=len(tokens)).snapshot({}, None)
    return TaskResult(
        group, 5, Spread.of([50.0]), Spread.of([75.0]), Spread.of(ratios), equal, stats, tokens
    )


def test_repetition_is_drafted_and_equal(model):
    found = run_task(model, BUILT_IN[0], max_tokens=40, rounds=2, speculation=HOW)
    assert found.equal
    assert found.stats.tokens_per_step > 2
    assert len(found.tokens) == found.stats.committed == 40
    assert {token.source for token in found.tokens} >= {"model", "conversation"}


def test_rounds_do_not_learn_from_each_other(model):
    task = asked("free", "Name three trees.")
    once = run_task(model, task, max_tokens=16, rounds=1, speculation=HOW)
    again = run_task(model, task, max_tokens=16, rounds=1, speculation=HOW)
    assert [token.source for token in once.tokens] == [token.source for token in again.tokens]


def test_who_goes_first_changes_from_round_to_round(model):
    order = []

    class Watched:
        tokenizer = model.tokenizer

        def stream(self, prompt, *, speculation, references, **rest):
            order.append(speculation is not False)
            return model.stream(prompt, speculation=speculation, references=references, **rest)

    run_task(Watched(), Task(group="x", text="One two"), max_tokens=2, rounds=3, speculation=HOW)
    assert order == [False, True, True, False, False, True]


def test_a_reference_is_drafted_from_and_not_shown_to_the_model(model):
    task = asked("q", "Say it.", reference="a sentence that no model would ever guess by itself")
    assert "guess" not in model.tokenizer.decode(task.encode(model))
    found = run_task(model, task, max_tokens=4, rounds=1, speculation=HOW)
    assert "reference:0" in found.stats.sources


def test_different_outputs_are_seen(model):
    class Wrong:
        tokenizer = model.tokenizer

        def stream(self, prompt, *, speculation, **rest):
            prompt = prompt if speculation else prompt[:-1]
            return model.stream(prompt, speculation=speculation, **rest)

    task = Task(group="x", text="One two three, one two three, one two")
    assert not run_task(Wrong(), task, max_tokens=4, rounds=1, speculation=HOW).equal


def test_built_in_tasks_are_of_each_kind_and_can_be_sampled():
    assert [task.group for task in BUILT_IN] == [
        "repetition",
        "grounded copy",
        "code edit",
        "free form",
        "reference",
    ]
    sampled = BUILT_IN[0].sampled()
    assert sampled.group == "repetition, T=0.7"
    assert sampled.sampling == SAMPLED
    assert (sampled.text, sampled.messages) == (BUILT_IN[0].text, BUILT_IN[0].messages)


def test_groups_keep_their_order_their_worst_prompt_and_their_doubts():
    groups = summarise([result("b", 1.0, 1.2), result("a", 0.9), result("b", 2.0, equal=False)])
    assert [(group.group, group.prompts) for group in groups] == [("b", 2), ("a", 1)]
    assert groups[0].ratio.median == pytest.approx(1.55)
    assert groups[0].worst == pytest.approx(1.1)
    assert (groups[0].equal, groups[1].equal) == (False, True)
    assert groups[1].worst == 0.9


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict]] = []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_report_is_whole_and_needs_nothing_else():
    tokens = (
        TextToken(1, "<script>", "model"),
        TextToken(2, " & ", "reference:0"),
        TextToken(3, "x", "own source"),
    )
    page = html_report(
        [result("a <b>", 1.5, tokens=tokens), result("c", 0.5)], title="m & n", cost=NATIVE_COST
    )
    parser = _Tags()
    parser.feed(page)
    assert parser.open == []
    tags = [tag for tag, _ in parser.seen]
    assert "script" not in tags
    assert "link" not in tags
    assert not any({"src", "href"} & attributes.keys() for _, attributes in parser.seen)
    assert "&lt;script&gt;" in page
    for source in ("model", "reference:0", "own source"):
        assert f'<span style="background:{color_of(source)}">' in page
        assert f'fill="{color_of(source)}"' in page


def test_the_report_says_from_which_acceptance_a_draft_pays():
    curve = CostCurve([(1, 1.0), (2, 2.5), (3, 2.0), (17, 9.0)])
    page = html_report([result("a", 1.5)], title="m", cost=curve)
    costs = [curve.cost(1 + draft) for draft in (1, 2, 3, 4, 6, 8, 12, 16)]
    assert "".join(f"<td>{cost:.2f}</td>" for cost in costs) in page
    assert "<td>never</td><td>50%</td>" in page  # one token can never earn 2.5 steps
    assert "<td>50%</td></tr>" in page  # 8 of 16


def test_bars_are_measured_against_plain_decoding():
    page = html_report([result("a", 2.0), result("b", 0.5)], title="m", cost=NATIVE_COST)
    assert page.count('<i style="left:5.00rem">') == 2
    assert '<div class="bar" style="width:10.00rem">' in page
    assert '<div class="bar loss" style="width:2.50rem">' in page
    alone = html_report([result("b", 0.5)], title="m", cost=NATIVE_COST)
    assert '<i style="left:10.00rem">' in alone  # the line stays on the page


def test_statistics_of_several_generations_add_up_their_gate_events():
    recorder = StatsRecorder()
    part = result("x", 1.0).stats
    for trips in (1, 2):
        recorder.add(replace(part, gate_trips=trips, gate_disabled_steps=10 * trips))
    whole = recorder.snapshot({}, None)
    assert (whole.gate_trips, whole.gate_probes, whole.gate_disabled_steps) == (3, 0, 30)


def run(*arguments: str):
    model = str(real_model_path("smollm2-135m"))
    found = CliRunner().invoke(app, ["bench", "tasks", "-m", model, "-t", "1", *arguments])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


def test_a_file_of_prompts_is_grouped_by_its_categories(tmp_path):
    data = write_lines(tmp_path / "questions.jsonl", QUESTION, QUESTION)
    html = tmp_path / "report.html"
    shown = run(
        *("--data", str(data), "--limit", "1", "-n", "4", "-r", "1", "--json", "--html", str(html))
    )
    document = json.loads(shown.stdout)
    name = f"questions {QUESTION['category']}"
    assert [group["group"] for group in document["groups"]] == [name, f"{name}, T=0.7"]
    assert all(entry["equal"] for entry in document["results"])
    assert name in html.read_text()


def test_prompts_beyond_the_context_are_left_out_and_said_so(tmp_path):
    data = write_lines(tmp_path / "questions.jsonl", QUESTION)
    with pytest.raises(InvalidArgumentError, match="no prompt fits"):
        run("--data", str(data), "-n", "8", "-c", "10")


def test_output_that_differs_is_an_error(tmp_path, monkeypatch):
    data = write_lines(tmp_path / "questions.jsonl", QUESTION)
    monkeypatch.setattr(
        "maglio.cli.bench_tasks.run_task", lambda *_, **__: result("x", 1.0, equal=False)
    )
    with pytest.raises(MaglioError, match="differed"):
        run("--data", str(data), "-n", "4", "-r", "1", "--greedy-only")
