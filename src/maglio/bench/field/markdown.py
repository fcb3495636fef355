"""A field benchmark as Markdown, and its place in a page that has more than that.

Boundary: a summary to text. A page holds the text of a file of results between two comments that
name the file, so that a page can carry several and the words around them stay.
"""

from __future__ import annotations

from collections.abc import Iterator

from maglio.bench.field import table as tables
from maglio.bench.field.curve import curves_of
from maglio.bench.field.setting import setting
from maglio.bench.field.summary import Summary
from maglio.bench.field.table import Table
from maglio.bench.field.verdict import verdicts
from maglio.bench.field.words import count

NOT_RUN = "No run is recorded yet."
"""What stands between the comments before there is a file of results."""


def markdown(summary: Summary) -> str:
    """The report, with headings of the third level."""
    return "\n\n".join(_parts(summary)) + "\n"


def section(name: str, body: str) -> str:
    """A report between the comments that name its file of results."""
    return f"{_begin(name)}\n\n{body.strip()}\n\n{_end(name)}\n"


def find_section(page: str, name: str) -> str | None:
    """What stands between the comments of ``name``; ``None`` if the page has none."""
    bounds = _bounds(page, name)
    return None if bounds is None else page[bounds[0] : bounds[1]].strip()


def replace_section(page: str, name: str, body: str) -> str | None:
    """The page with another text there; ``None`` if the page has no such comments."""
    bounds = _bounds(page, name)
    if bounds is None:
        return None
    return f"{page[: bounds[0]]}\n\n{body.strip()}\n\n{page[bounds[1] :]}"


def _begin(name: str) -> str:
    return f"<!-- results of {name} -->"


def _end(name: str) -> str:
    return f"<!-- end of {name} -->"


def _bounds(page: str, name: str) -> tuple[int, int] | None:
    """Where the text between the comments begins and ends."""
    before, found, _ = page.partition(_begin(name))
    begin = len(before) + len(found)
    end = page.find(_end(name), begin)
    return (begin, end) if found and end >= 0 else None


def _parts(summary: Summary) -> Iterator[str]:
    header = summary.header
    yield _text(setting(summary))
    yield from _titled(tables.overview(summary))
    for task in header.tasks:
        yield f"### {_text(task.name)}"
        yield f"{_text(task.expected)} {count(task.prompts, 'prompt')} ({_text(task.data)})."
        yield from (f"- {_text(said)}" for said in verdicts(summary, task.name))
        yield from _table(tables.of_task(summary, task.name))
    yield from _titled(tables.contestants(summary))
    yield from _titled(tables.failures(summary))
    for curve in curves_of(summary.growth):
        yield from _titled(tables.of_curve(curve))


def _titled(table: Table) -> Iterator[str]:
    if table.rows:
        yield f"### {_text(table.title)}"
        yield from _table(table)


def _table(table: Table) -> Iterator[str]:
    if not table.rows:
        return
    lines = [
        _row(column.name for column in table.columns),
        _row("---:" if column.is_number else "---" for column in table.columns),
        *(_row(value.text for value in row) for row in (*table.rows, *table.foot)),
    ]
    yield "\n".join(lines)


def _row(texts: Iterator[str]) -> str:
    return f"| {' | '.join(map(_text, texts))} |"


def _text(text: str) -> str:
    """Text of a file of results: one line, and nothing of it is markup."""
    return " ".join(text.split()).translate(_ESCAPES)


_ESCAPES = str.maketrans(
    {"<": "&lt;", ">": "&gt;", **{character: f"\\{character}" for character in "\\|[]*_`#"}}
)
