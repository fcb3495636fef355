"""Compare a field benchmark with a recorded one: what got slower, beyond noise?

    python benchmarks/guard.py NEW.jsonl benchmarks/results/field-smollm2.jsonl [--tolerance 0.03]

Key ratios are those of Maglio's contestants that draft, in every task at every temperature: to the
plain decoding of the same engine, and to the best peer. A ratio has got worse if it is lower by
more than the tolerance and more than three standard errors of both, which come from the rounds of
each prompt. Outputs that differ from plain decoding are a loss whatever they were before, and so
are cells that are gone. The status is 1 if there is a loss, and the table says which. Both files
are results of `maglio bench field`, or summaries of `maglio bench report`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from maglio.bench.field.ratio import Ratio
from maglio.bench.field.summary import Cell, Summary, is_ours
from maglio.bench.field.summary_file import read_summary
from maglio.bench.field.words import decoding
from maglio.errors import MaglioError

TOLERANCE = 0.03
UNKNOWN_NOISE = 0.03
"""Standard error, as a share, of a ratio whose prompts had one round each."""
ERRORS = 3.0


class Loss(NamedTuple):
    """Something that got worse."""

    task: str
    decoding: str
    contestant: str
    what: str
    recorded: str
    new: str


def losses(new: Summary, recorded: Summary, *, tolerance: float = TOLERANCE) -> Iterator[Loss]:
    """What got worse beyond noise."""
    found = {(cell.task, cell.temperature, cell.contestant): cell for cell in _key_cells(new)}
    for old in _key_cells(recorded):
        cell = found.get((old.task, old.temperature, old.contestant))
        for what, before, now in _worse(cell, old, tolerance):
            yield Loss(old.task, decoding(old.temperature), old.contestant, what, before, now)


def _key_cells(summary: Summary) -> Iterator[Cell]:
    for cell in summary.cells:
        contestant = summary.contestant(cell.contestant)
        if is_ours(contestant) and not contestant.is_plain:
            yield cell


def _worse(cell: Cell | None, old: Cell, tolerance: float) -> Iterator[tuple[str, str, str]]:
    if cell is None or (cell.tokens_per_s is None and old.tokens_per_s is not None):
        yield "result", "there", "missing"
        return
    for what, now, before in (
        ("vs own plain", cell.own, old.own),
        ("vs best peer", cell.peer, old.peer),
    ):
        if before is None:
            continue
        if now is None:
            yield what, f"{before.mean:.2f}", "missing"
        elif _is_lower(now, before, tolerance):
            yield what, f"{before.mean:.2f}", f"{now.mean:.2f}"
    if cell.failed > old.failed:
        yield "failed", f"{old.failed} of {old.runs}", f"{cell.failed} of {cell.runs}"
    if cell.equal < cell.compared:
        yield "equal", f"{old.equal} of {old.compared}", f"{cell.equal} of {cell.compared}"


def _is_lower(now: Ratio, before: Ratio, tolerance: float) -> bool:
    noise = math.hypot(
        *(UNKNOWN_NOISE if ratio.noise is None else ratio.noise for ratio in (now, before))
    )
    return now.mean < before.mean * (1.0 - max(tolerance, ERRORS * noise))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("new", type=Path, help="results, or a summary of them")
    parser.add_argument("recorded", type=Path, help="what they are compared with")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help="a share, such as 0.03")
    args = parser.parse_args()
    try:
        new, recorded = read_summary(args.new), read_summary(args.recorded)
    except MaglioError as error:
        print(f"guard: {error}", file=sys.stderr)
        return 2
    found = list(losses(new, recorded, tolerance=args.tolerance))
    if not found:
        print(f"nothing of {sum(1 for _ in _key_cells(recorded))} cells got slower beyond noise")
        return 0
    rows = [Loss("task", "decoding", "contestant", "what", "recorded", "new"), *found]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print(
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        )
    return 1


if __name__ == "__main__":
    sys.exit(main())
