"""What a field benchmark says, in sentences: what Maglio gains where, and where it loses.

Boundary: a summary to text. A loss is said in the same words as a gain.
"""

from __future__ import annotations

from collections.abc import Iterator

from maglio.bench.field.ratio import Ratio
from maglio.bench.field.summary import Cell, Place, Summary, is_ours
from maglio.bench.field.words import count, decoding, figure

_LEVEL = 0.005
"""A mean ratio this near to 1 is level, where noise is not known."""


def verdicts(summary: Summary, task: str) -> list[str]:
    """One paragraph for each temperature."""
    return [verdict(summary, (task, at)) for at in summary.temperatures if summary.at((task, at))]


def verdict(summary: Summary, place: Place) -> str:
    """What Maglio gains or loses in a task at a temperature."""
    how = decoding(place[1]).capitalize()
    name = summary.lead
    cells = {cell.contestant: cell for cell in summary.at(place)}
    cell = cells.pop(name, None) if name is not None else None
    if cell is None:
        return f"{how}: Maglio's drafting was not measured."
    if cell.tokens_per_s is None:
        return f"{how}: {cell.contestant} gave no result in {count(cell.runs, 'run')}."
    said = [
        f"{how}: {_beside_peer(cell, cell.tokens_per_s, summary.best_peer(place))}",
        *([_beside_plain(cell.own)] if cell.own is not None else []),
        *_equality(cell),
        *([f"{count(cell.failed, 'run')} of {cell.runs} failed."] if cell.failed else []),
        *_others(summary, list(cells.values())),
    ]
    return " ".join(said)


def _beside_peer(cell: Cell, rate: float, peer: Cell | None) -> str:
    speed = f"{cell.contestant} decodes {figure(rate)} tokens per second"
    if peer is None or peer.tokens_per_s is None or cell.peer is None:
        return f"{speed}; no peer did the same prompts."
    theirs = f"the best peer, {peer.contestant} ({figure(peer.tokens_per_s)})"
    standing = _standing(cell.peer)
    return f"{speed}. That is {standing} {theirs}: {_speed(cell.peer)}."


def _beside_plain(own: Ratio) -> str:
    return f"It is {_standing(own)} its own plain decoding: {_speed(own)}."


def _standing(ratio: Ratio) -> str:
    margin = _LEVEL if ratio.noise is None else max(_LEVEL, 2.0 * ratio.noise * ratio.mean)
    if abs(ratio.mean - 1.0) <= margin:
        return "level with"
    return "ahead of" if ratio.mean > 1.0 else "behind"


def _speed(ratio: Ratio) -> str:
    """The ratio, and how many prompts say the contrary of it."""
    text = f"{ratio.mean:.2f} times its speed"
    if ratio.prompts == 1:
        return text
    text += f" ({ratio.low:.2f} to {ratio.high:.2f})"
    above = ratio.prompts - ratio.below
    if ratio.mean >= 1.0 and ratio.below:
        return f"{text}, slower on {ratio.below} of {ratio.prompts} prompts"
    if ratio.mean < 1.0 and above:
        return f"{text}, not slower on {above} of {ratio.prompts} prompts"
    return text


def _equality(cell: Cell) -> Iterator[str]:
    if cell.compared == 0:
        yield "Its outputs were not compared with plain decoding."
    elif cell.equal == cell.compared:
        yield f"Outputs equal to plain decoding: {cell.equal} of {cell.compared}."
    else:
        unlike = cell.compared - cell.equal
        yield f"Outputs unlike plain decoding: {unlike} of {cell.compared}."


def _others(summary: Summary, cells: list[Cell]) -> Iterator[str]:
    """Maglio on other engines, and whose outputs drafts have changed."""
    for cell in cells:
        if is_ours(summary.contestant(cell.contestant)) and cell.own is not None:
            yield f"{cell.contestant} is {_standing(cell.own)} its plain one: {_speed(cell.own)}."
    unlike = [
        f"{cell.contestant} {cell.compared - cell.equal} of {cell.compared}"
        for cell in cells
        if cell.equal < cell.compared
    ]
    if unlike:
        yield f"Outputs of others unlike their own plain ones: {', '.join(unlike)}."
