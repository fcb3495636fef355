"""Results of the tasks as one HTML page that needs nothing else: no script, no file, no network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from maglio.bench.tasks import GroupSummary, TaskResult, summarise
from maglio.economics.cost import CostModel
from maglio.economics.probe import strict_break_even
from maglio.generation import TextToken

_COLORS = {
    "model": "#d9d9d9",
    "conversation": "#4aa3c7",
    "reference": "#5fb36a",
    "recycling": "#e0a83c",
    "history": "#a981c9",
}
_OTHER = "#c77f74"
_WINDOW = 8
_BAR_REM = 10.0
_DRAFTS = (1, 2, 3, 4, 6, 8, 12, 16)
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse }
td, th { padding: .15rem .6rem; text-align: right; white-space: nowrap }
td:first-child, th:first-child { text-align: left }
.bars { position: relative; height: .8rem; border-left: 1px solid #bbb }
.bars i { position: absolute; top: -.3rem; height: 1.4rem; border-left: 1px dashed #555 }
.bar { height: 100%; background: #4aa3c7 }
.loss { background: #c77f74 }
pre { white-space: pre-wrap; background: #f7f7f7; padding: .8rem; border-radius: .3rem }
pre span, .key span { border-radius: .2rem; padding: .05rem 0 }
.key span { padding: .1rem .5rem; margin-right: .4rem }
svg { background: #f7f7f7 }
"""


def html_report(results: Sequence[TaskResult], *, title: str, cost: CostModel) -> str:
    """Build the page.

    Args:
        results: what was measured.
        title: heading, such as the model's name.
        cost: what a forward costs by its rows.
    """
    parts = [
        f"<h1>{escape(title)}</h1>",
        "<h2>Speed-up over plain decoding</h2>",
        _bars(summarise(results)),
        "<h2>Cost of a verify step</h2>",
        "<p>Blue: cost of a forward in plain steps. Grey: what its rows would cost one by one; a "
        "step pays when it commits more tokens than the blue line says.</p>",
        _cost_curve(cost),
        _break_even(cost),
        "<h2>Output</h2>",
        f'<p class="key">{_key()}</p>',
        *(_section(result) for result in results),
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}'
        f"</title><style>{_STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def color_of(source: str) -> str:
    """Colour of a token's source."""
    return _COLORS.get(source.split(":")[0], _OTHER)


def _key() -> str:
    return "".join(
        f'<span style="background:{color}">{name}</span>' for name, color in _COLORS.items()
    )


def _bars(groups: Sequence[GroupSummary]) -> str:
    """A row for each group; the dashed line is plain decoding."""
    longest = max(1.0, *(group.ratio.median for group in groups))
    rows = [
        "<tr><th>task</th><th>prompts</th><th>plain tok/s</th><th>speculative</th><th>ratio</th>"
        "<th>worst</th><th>outputs</th><th></th></tr>"
    ]
    for group in groups:
        ratio = group.ratio
        width = _BAR_REM * ratio.median / longest
        loss = " loss" if ratio.median < 1.0 else ""
        rows.append(
            f"<tr><td>{escape(group.group)}</td><td>{group.prompts}</td><td>{group.plain:.1f}</td>"
            f"<td>{group.speculative:.1f}</td>"
            f"<td>{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})</td>"
            f"<td>{group.worst:.2f}</td><td>{'equal' if group.equal else 'DIFFERENT'}</td>"
            f'<td><div class="bars" style="width:{_BAR_REM}rem">'
            f'<div class="bar{loss}" style="width:{width:.2f}rem"></div>'
            f'<i style="left:{_BAR_REM / longest:.2f}rem"></i></div></td></tr>'
        )
    return f"<table>{''.join(rows)}</table>"


def _cost_curve(cost: CostModel, last: int = 17) -> str:
    width, height = 520.0, 220.0

    def line(values: Sequence[float], color: str) -> str:
        points = " ".join(
            f"{width * (rows - 1) / (last - 1):.1f},{height - height * value / last:.1f}"
            for rows, value in enumerate(values, start=1)
        )
        return f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>'

    rows = range(1, last + 1)
    return (
        f'<svg viewBox="-10 -10 {width + 20:.0f} {height + 20:.0f}" width="{width + 20:.0f}">'
        + line([float(n) for n in rows], "#bbb")
        + line([cost.cost(n) for n in rows], "#4aa3c7")
        + f"</svg><p>From left to right 1 to {last} rows, upwards 0 to {last} plain steps.</p>"
    )


def _break_even(cost: CostModel) -> str:
    """What drafts of several lengths cost, and the share of them that must be accepted."""
    costs = [cost.cost(1 + draft) for draft in _DRAFTS]
    shares = [strict_break_even(draft, price) for draft, price in zip(_DRAFTS, costs, strict=True)]
    rows = (
        ("draft tokens", [str(draft) for draft in _DRAFTS]),
        ("plain steps", [f"{price:.2f}" for price in costs]),
        ("pays from", [f"{100 * share:.0f}%" if share <= 1.0 else "never" for share in shares]),
    )
    lines = (
        f"<tr><th>{name}</th>{''.join(f'<td>{value}</td>' for value in values)}</tr>"
        for name, values in rows
    )
    return f"<table>{''.join(lines)}</table>"


def _section(result: TaskResult) -> str:
    stats = result.stats
    sources = ", ".join(
        f"{escape(name)} {counts.accepted}/{counts.drafted}"
        for name, counts in stats.sources.items()
        if counts.drafted
    )
    text = "".join(
        f'<span style="background:{color_of(token.source)}">{escape(token.text)}</span>'
        for token in result.tokens
    )
    return (
        f"<h3>{escape(result.group)}</h3><p>{stats.committed} tokens, "
        f"{stats.tokens_per_step:.2f} per step; accepted {100 * stats.acceptance_rate:.0f}% of "
        f"{stats.drafted} drafted ({sources or 'none'}); gate: {stats.gate_trips} trips, "
        f"{stats.gate_probes} probes, {stats.gate_disabled_steps} steps off.</p>"
        f"{_timeline(result.tokens)}<pre>{text}</pre>"
    )


def _timeline(tokens: Sequence[TextToken]) -> str:
    """Who predicted the tokens along the output, in columns of a few tokens each.

    A token of any source but the model was a draft token and accepted, so the coloured part of a
    column is the share of tokens that drafts gave there.
    """
    width, height = 12, 48
    shapes: list[str] = []
    for start in range(0, len(tokens), _WINDOW):
        window = tokens[start : start + _WINDOW]
        bottom = float(height)
        for source in sorted({token.source for token in window}):
            share = sum(token.source == source for token in window) / len(window)
            bottom -= height * share
            shapes.append(
                f'<rect x="{start // _WINDOW * width}" y="{bottom:.1f}" width="{width - 1}" '
                f'height="{height * share:.1f}" fill="{color_of(source)}"/>'
            )
    total = max(1, -(-len(tokens) // _WINDOW)) * width
    return f'<svg viewBox="0 0 {total} {height}" width="{total}">{"".join(shapes)}</svg>'
