"""``maglio bench report``: what a file of results says, in a terminal, in docs, in a browser."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from maglio.bench.field import table as tables
from maglio.bench.field.curve import curves_of
from maglio.bench.field.html import html as html_page
from maglio.bench.field.markdown import markdown as markdown_text
from maglio.bench.field.markdown import replace_section, section
from maglio.bench.field.setting import setting
from maglio.bench.field.summary import Summary
from maglio.bench.field.summary_file import read_summary, write_summary
from maglio.bench.field.table import Table
from maglio.bench.field.verdict import verdicts
from maglio.errors import InvalidArgumentError
from maglio.files import read_regular, write_atomic

MAX_PAGE_BYTES = 1 << 24


def report(
    results: Annotated[
        Path,
        typer.Argument(help="Results of 'bench field' and 'bench growth', or a summary of them."),
    ],
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write a page to open in a browser.", show_default=False),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(
            "--markdown",
            help="Write Markdown; in a page that is there, between '<!-- results of NAME -->' and "
            "'<!-- end of NAME -->', where NAME is that of the results without its ending.",
            show_default=False,
        ),
    ] = None,
    summary: Annotated[
        Path | None,
        typer.Option(
            "--summary",
            help="Write a summary: small, and read by this command as the results are.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Say what a field benchmark and growth curves have shown, losses as plainly as gains."""
    read = read_summary(results)
    _print(read)
    notes = Console(stderr=True, highlight=False)
    if summary is not None:
        write_summary(summary, read)
        notes.print(f"summary {escape(str(summary))}", soft_wrap=True)
    if markdown is not None:
        _write(markdown, _page(markdown, results.stem, markdown_text(read)))
        notes.print(f"markdown {escape(str(markdown))}", soft_wrap=True)
    if html is not None:
        _write(html, html_page(read))
        notes.print(f"page {escape(str(html))}", soft_wrap=True)


def _page(path: Path, name: str, body: str) -> str:
    """The page with the report in its place."""
    if not path.exists():
        return section(name, body)
    try:
        page = read_regular(path, MAX_PAGE_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidArgumentError(f"cannot read {path}: {reason}") from error
    changed = replace_section(page, name, body)
    if changed is None:
        raise InvalidArgumentError(
            f"{path} has no place for these results: put a line '<!-- results of {name} -->' and a "
            f"line '<!-- end of {name} -->' where they belong, or name a new file"
        )
    return changed


def _write(path: Path, text: str) -> None:
    try:
        write_atomic(path, text.encode())
    except OSError as error:
        raise InvalidArgumentError(f"cannot write {path}: {error.strerror}") from error


def _print(summary: Summary) -> None:
    # A pipe has no width to cut figures to.
    out = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    out.print(escape(setting(summary)))
    _table(out, tables.overview(summary))
    for task in summary.header.tasks:
        out.print(f"[bold]{escape(task.name)}[/bold]: {escape(task.expected)}")
        for said in verdicts(summary, task.name):
            out.print(escape(said))
        out.print()
    for curve in curves_of(summary.growth):
        _table(out, tables.of_curve(curve))
    _table(out, tables.failures(summary))


def _table(out: Console, table: Table) -> None:
    if not table.rows:
        return
    shown = RichTable(title=escape(table.title), box=box.SIMPLE)
    for column in table.columns:
        justify: Literal["left", "right"] = "right" if column.is_number else "left"
        shown.add_column(escape(column.name), justify=justify, overflow="fold")
    for row in table.rows:
        shown.add_row(*(escape(value.text) for value in row))
    if table.foot:
        shown.add_section()
    for row in table.foot:
        shown.add_row(*(escape(value.text) for value in row), style="dim")
    out.print(shown)
