"""A field benchmark as one HTML page that needs nothing else: no other file, no network.

Pictures are SVG made here, and no charting library is inlined. The well-kept ones that come as
Python packages would weigh 1.0 MB (Vega, of the package vega) to 4.8 MB (Plotly) in every page, ten
times the rest of it. Bokeh and Plotly's larger charts draw on a canvas, whose text a screen reader
does not find; none of them follows a page that turns dark. What is shown are bars, ranges and
curves: some hundred lines here, a few kilobytes a picture, there without a script and in print. The
script sorts tables and does nothing else.

Boundary: a summary to text. All text of a file of results is escaped, and the page allows itself
nothing but its own style and script.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from html import escape
from importlib.resources import files

from maglio.bench.field import table as tables
from maglio.bench.field.curve import Curve, curves_of
from maglio.bench.field.growth_figure import growth_figure, marker
from maglio.bench.field.setting import setting
from maglio.bench.field.speed_figure import advantages, speeds
from maglio.bench.field.summary import Summary
from maglio.bench.field.table import Column, Table, Value
from maglio.bench.field.verdict import verdicts
from maglio.bench.field.words import count, decoding


def html(summary: Summary) -> str:
    """The page."""
    style, script = _file("report.css"), _file("report.js")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_hash(style)}'",
            f"script-src '{_hash(script)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    title = f"Maglio and the field: {summary.header.model.name}"
    return "".join(
        (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escape(title)}</title>",
            f'<link rel="icon" href="data:,"><style>{style}</style></head>\n<body>',
            f"<header><h1>{escape(title)}</h1>",
            f"<p>{escape(setting(summary))}</p></header>\n<main>",
            *_body(summary),
            f"</main><script>{script}</script></body></html>\n",
        )
    )


def _body(summary: Summary) -> Iterator[str]:
    if summary.cells:
        yield _section("overview", "By task", *_overview(summary))
    for number, task in enumerate(summary.header.tasks):
        said = (f"<p>{escape(text)}</p>" for text in verdicts(summary, task.name))
        yield _section(
            f"task-{number}",
            task.name,
            f'<p class="note">{escape(task.expected)} {count(task.prompts, "prompt")} '
            f"({escape(task.data)}).</p>",
            f'<div class="verdict">{"".join(said)}</div>',
            *_speeds(summary, task.name),
            _table(tables.of_task(summary, task.name)),
        )
    curves = curves_of(summary.growth)
    if curves:
        yield _section("growth", "Growth", _GROWTH, *map(_curve, curves))
    if summary.header.contestants:
        yield _section("contestants", "Contestants", _table(tables.contestants(summary)))
    if summary.failures:
        yield _section("errors", "Errors", _table(tables.failures(summary)))


_RATIOS = (
    '<p class="note">Ratios are geometric means over prompts of the speeds of runs that followed '
    "each other. In brackets, and as a line: the lowest and the highest. The broken line is the "
    "speed of the best peer.</p>"
)
_GROWTH = (
    '<p class="note">Broken lines: growth of the expected order from the first point on. Upright '
    "lines: quartiles.</p>"
)


def _overview(summary: Summary) -> Iterator[str]:
    yield "<h3>Speed over the best peer</h3>"
    yield advantages(summary)
    yield _RATIOS
    yield _table(tables.overview(summary))


def _speeds(summary: Summary, task: str) -> Iterator[str]:
    yield '<div class="charts">'
    for temperature in summary.temperatures:
        if summary.at((task, temperature)):
            yield f"<figure><figcaption>Tokens per second, {decoding(temperature)}</figcaption>"
            yield f"{speeds(summary, (task, temperature))}</figure>"
    yield "</div>"


def _curve(curve: Curve) -> str:
    key = "".join(
        f'<li><svg class="key" viewBox="0 0 10 10" aria-hidden="true">{marker(number)}</svg> '
        f"{escape(line.name)} <small>{escape(line.expected)}</small></li>"
        for number, line in enumerate(curve.series)
    )
    return (
        f'<div class="curve"><figure><figcaption>{escape(curve.name)}, {escape(curve.unit)}'
        f'</figcaption><ul class="keys">{key}</ul>{growth_figure(curve)}</figure>'
        f"{_table(tables.of_curve(curve))}</div>"
    )


def _section(name: str, title: str, *parts: str) -> str:
    return (
        f'<section aria-labelledby="{name}"><h2 id="{name}">{escape(title)}</h2>'
        f"{''.join(parts)}</section>\n"
    )


def _table(table: Table) -> str:
    """A table that scrolls by itself where it is wider than the screen."""
    if not table.rows:
        return ""
    head = "".join(map(_heading, table.columns))
    rows = "".join(_row(table, row) for row in table.rows)
    foot = "".join(_row(table, row) for row in table.foot)
    end = f"<tfoot>{foot}</tfoot>" if foot else ""
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(table.title)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody>{end}</table></div>"
    )


def _heading(column: Column) -> str:
    kind = ' class="number"' if column.is_number else ""
    return f'<th scope="col"{kind}><button type="button">{escape(column.name)}</button></th>'


def _row(table: Table, row: tuple[Value, ...]) -> str:
    cells = []
    for number, (column, value) in enumerate(zip(table.columns, row, strict=True)):
        tag = 'th scope="row"' if number == 0 else "td"
        kind = ' class="number"' if column.is_number else ""
        sort = "" if value.number is None else f' data-number="{value.number:.9g}"'
        cells.append(f"<{tag}{kind}{sort}>{escape(value.text)}</{tag[:2]}>")
    return f"<tr>{''.join(cells)}</tr>"


def _file(name: str) -> str:
    return (files("maglio.bench.field") / "page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """As a content security policy names an inline style or script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
