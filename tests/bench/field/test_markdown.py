"""The report as Markdown, and the page of the documentation that carries it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from maglio.bench.field import table as tables
from maglio.bench.field.curve import curves_of
from maglio.bench.field.line import FieldTask, PeakMemory
from maglio.bench.field.markdown import NOT_RUN, find_section, markdown, replace_section, section
from maglio.bench.field.results import FieldResults
from maglio.bench.field.summary import summarise
from maglio.bench.field.summary_file import read_summary
from maglio.cli.app import app
from maglio.errors import InvalidArgumentError
from support.field_results import TASKS, failed, field_runs, growth, header, run, write_results

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/benchmarks.md"
RESULTS = ROOT / "benchmarks/results"
NAMES = sorted(set(re.findall(r"<!-- results of (\S+) -->", PAGE.read_text())))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    lines = [*field_runs(), PeakMemory("maglio", 123_000_000), *growth()]
    return write_results(tmp_path / "field-tiny.jsonl", header(), *lines)


def report(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["bench", "report", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def is_stale(page: str, folder: Path, name: str) -> bool:
    """Whether a page says something else about results than their file does."""
    path = folder / f"{name}.jsonl"
    said = markdown(read_summary(path)).strip() if path.exists() else NOT_RUN
    return find_section(page, name) != said


@pytest.mark.parametrize("name", NAMES)
def test_the_page_says_what_the_files_of_results_say(name: str) -> None:
    assert not is_stale(PAGE.read_text(), RESULTS, name), (
        f"run: maglio bench report benchmarks/results/{name}.jsonl --markdown docs/benchmarks.md"
    )


def test_every_file_of_results_is_on_the_page() -> None:
    assert NAMES
    assert {path.stem for path in RESULTS.glob("*.jsonl")} <= set(NAMES)


def test_a_page_that_says_another_number_is_stale(results: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"Before.\n\n{section('field-tiny', NOT_RUN)}\nAfter.\n")
    assert is_stale(page.read_text(), tmp_path, "field-tiny")
    report(results, "--markdown", page)
    text = page.read_text()
    assert not is_stale(text, tmp_path, "field-tiny")
    assert text.startswith("Before.\n\n<!-- results of field-tiny -->\n\nModel tiny.gguf")
    assert text.endswith("<!-- end of field-tiny -->\n\nAfter.\n")
    assert is_stale(text.replace("| 200 |", "| 201 |"), tmp_path, "field-tiny")
    report(results, "--markdown", page)
    assert page.read_text() == text


def test_a_summary_gives_the_same_page_as_the_results(results: Path, tmp_path: Path) -> None:
    small = tmp_path / "small" / "field-tiny.jsonl"
    small.parent.mkdir()
    report(results, "--summary", small, "--markdown", tmp_path / "long.md")
    report(small, "--markdown", tmp_path / "short.md")
    assert (tmp_path / "short.md").read_text() == (tmp_path / "long.md").read_text()
    assert len(small.read_bytes()) < len(results.read_bytes())


def test_a_page_without_a_place_for_the_results_is_left_alone(
    results: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- results of field-tiny -->\n")
    with pytest.raises(InvalidArgumentError, match="no place for these results"):
        report(results, "--markdown", page)
    assert page.read_text() == "<!-- results of field-tiny -->\n"
    assert replace_section("", "x", "y") is None


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_tables_keep_their_values_in_their_columns(results: Path) -> None:
    summary = read_summary(results)
    lines = markdown(summary).splitlines()
    tasks = [tables.of_task(summary, task.name) for task in TASKS]
    curves = [tables.of_curve(curve) for curve in curves_of(summary.growth)]
    some = [tables.overview(summary), *tasks, tables.contestants(summary), *curves]
    for table in [*some, tables.failures(summary)]:
        for row in (*table.rows, *table.foot):
            plain = [value.text for value in row]
            assert any(
                [re.sub(r"\\(.)", r"\1", cell) for cell in cells_of(line)] == plain
                for line in lines
                if line.startswith("|")
            ), plain


HOSTILE = "a|b\n# c <script>d</script> [e](f) `g` *h* \\"


def test_text_of_a_file_is_never_markup() -> None:
    tasks = (FieldTask(HOSTILE, HOSTILE, 1, HOSTILE),)
    runs = (run("maglio", 1.0, task=HOSTILE), failed("maglio", HOSTILE, task=HOSTILE, prompt="b"))
    results = FieldResults(header(tasks=tasks), runs, {}, ())
    text = markdown(summarise(results))
    assert "<script>" not in text
    assert "\n# c" not in text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(cells_of(line)) for line in lines if "script" in line} == {8, 5}
    assert not re.search(r"(?<!\\)[`*]", text)


def test_the_terminal_shows_the_same(results: Path) -> None:
    shown = " ".join(report(results).split())
    for word in ("code edit", "behind the best peer", "it hung", "first token", "n^0.07", "O(1)"):
        assert word in shown
