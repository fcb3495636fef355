"""Speeds as bars, and ratios as ranges: rows of text with a picture in each.

Boundary: a summary to HTML without styles. The text is the page's own and breaks as it needs; the
pictures are SVG measured in percent, so they are as wide as there is room.
"""

from __future__ import annotations

from html import escape

from maglio.bench.field.ratio import Ratio
from maglio.bench.field.summary import Place, Summary, is_ours
from maglio.bench.field.words import decoding, figure, times

COLOURS = 6
"""So many engines have a colour of their own; later ones share the last."""


def speeds(summary: Summary, place: Place) -> str:
    """A bar for each contestant, the fastest first; those that decode plainly have hollow ones."""
    rates = [(cell.tokens_per_s or 0.0, cell) for cell in summary.at(place)]
    most = max((rate for rate, _ in rates), default=0.0) or 1.0
    colours = _colours(summary)
    rows = []
    for rate, cell in sorted(rates, key=lambda pair: -pair[0]):
        contestant = summary.contestant(cell.contestant)
        kind = f"engine-{colours[contestant.engine]}{' hollow' if contestant.is_plain else ''}"
        bar = f'<rect class="{kind}" x="1" y="2" width="{98.0 * rate / most:.2f}%" height="12"/>'
        text = figure(rate) if rate else "failed"
        name = (
            f"<b>{escape(cell.contestant)}</b>" if is_ours(contestant) else escape(cell.contestant)
        )
        rows.append(_row(name, bar, text))
    return f'<ul class="bars">{"".join(rows)}</ul>'


def advantages(summary: Summary) -> str:
    """Maglio's ratio to the best peer in every task: mean, lowest and highest prompt."""
    entries = [
        (cell, cell.peer)
        for cell in summary.cells
        if cell.contestant == summary.lead and cell.peer is not None
    ]
    most = max((ratio.high for _, ratio in entries), default=1.0)
    rows = [
        _row(
            f"{escape(cell.task)} <small>{decoding(cell.temperature)}</small>",
            _range(ratio, 98.0 / max(most, 1.0)),
            times(ratio),
        )
        for cell, ratio in entries
    ]
    return f'<ul class="bars ranges">{"".join(rows)}</ul>' if rows else ""


def _range(ratio: Ratio, scale: float) -> str:
    low, mean, high = (scale * value for value in (ratio.low, ratio.mean, ratio.high))
    kind = "behind" if ratio.mean < 1.0 else "ahead"
    return (
        f'<line class="one" x1="{scale:.2f}%" x2="{scale:.2f}%" y1="0" y2="16"/>'
        f'<line class="range {kind}" x1="{low:.2f}%" x2="{high:.2f}%" y1="8" y2="8"/>'
        f'<circle class="{kind}" cx="{mean:.2f}%" cy="8" r="5"/>'
    )


def _row(name: str, picture: str, text: str) -> str:
    return (
        f'<li><span class="name">{name}</span><svg class="track" aria-hidden="true">{picture}</svg>'
        f'<span class="figure">{text}</span></li>'
    )


def _colours(summary: Summary) -> dict[str, int]:
    """A number for each engine, in the order of the contestants."""
    engines = dict.fromkeys(one.engine for one in summary.header.contestants)
    return {engine: min(number, COLOURS - 1) for number, engine in enumerate(engines)}
