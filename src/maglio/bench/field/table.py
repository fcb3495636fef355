"""The tables of a report, before they are written in any form.

Boundary: a summary to rows of values. A value is a text and, where it is one, the number that rows
are sorted by.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from maglio.bench.field.curve import Curve
from maglio.bench.field.line import Contestant
from maglio.bench.field.summary import Cell, Summary
from maglio.bench.field.words import (
    MISSING,
    amount,
    decoding,
    figure,
    megabytes,
    milliseconds,
    percent,
    times,
)


class Value(NamedTuple):
    """A cell of a table: its text, and the number it stands for if it stands for one."""

    text: str
    number: float | None = None


class Column(NamedTuple):
    """A heading, and whether numbers stand under it."""

    name: str
    is_number: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns.

    Attributes:
        title: what it says.
        columns: in order.
        rows: a value for each column.
        foot: rows about the others, which keep their place when those are sorted.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    foot: tuple[tuple[Value, ...], ...] = ()


def overview(summary: Summary) -> Table:
    """Maglio beside the best peer, task by task."""
    rows = []
    name = summary.lead
    for cell in summary.cells:
        if cell.contestant != name:
            continue
        peer = summary.best_peer((cell.task, cell.temperature))
        rows.append(
            (
                Value(cell.task),
                Value(decoding(cell.temperature)),
                _value(cell.tokens_per_s, figure),
                _ratio(cell, "own"),
                Value(MISSING if peer is None else peer.contestant),
                _value(None if peer is None else peer.tokens_per_s, figure),
                _ratio(cell, "peer"),
                _equal(cell),
            )
        )
    return Table(
        f"{name or 'Maglio'}, by task",
        (
            Column("task", is_number=False),
            Column("decoding", is_number=False),
            Column("tokens/s"),
            Column("vs own plain"),
            Column("best peer", is_number=False),
            Column("its tokens/s"),
            Column("vs best peer"),
            Column("equal"),
        ),
        tuple(rows),
    )


def of_task(summary: Summary, task: str) -> Table:
    """All contestants in a task; failed runs have a column where there are some."""
    cells = [cell for cell in summary.cells if cell.task == task]
    has_failures = any(cell.failed for cell in cells)
    return Table(
        task,
        (
            Column("contestant", is_number=False),
            Column("decoding", is_number=False),
            Column("tokens/s"),
            Column("vs own plain"),
            Column("vs best peer"),
            Column("accepted"),
            Column("tokens/step"),
            Column("equal"),
            Column("first token"),
            *([Column("failed")] if has_failures else []),
        ),
        tuple(
            (
                Value(cell.contestant),
                Value(decoding(cell.temperature)),
                _value(cell.tokens_per_s, figure),
                _ratio(cell, "own"),
                _ratio(cell, "peer"),
                _value(cell.acceptance_rate, percent),
                _value(cell.acceptance_length, figure),
                _equal(cell),
                _value(cell.first_token_s, milliseconds),
                *([Value(f"{cell.failed} of {cell.runs}", cell.failed)] if has_failures else []),
            )
            for cell in cells
        ),
    )


def contestants(summary: Summary) -> Table:
    """Who took part, how it was set, and what memory it took; who did not, and why."""
    return Table(
        "Contestants",
        (
            Column("contestant", is_number=False),
            Column("version", is_number=False),
            Column("settings", is_number=False),
            Column("peak memory"),
        ),
        tuple(
            (
                Value(entry.name),
                Value(entry.version or MISSING),
                Value(_settings(entry)),
                _value(summary.memory.get(entry.name), megabytes),
            )
            for entry in summary.header.contestants
        ),
    )


def failures(summary: Summary) -> Table:
    """What went wrong."""
    return Table(
        "Errors",
        (
            Column("task", is_number=False),
            Column("decoding", is_number=False),
            Column("contestant", is_number=False),
            Column("runs"),
            Column("error", is_number=False),
        ),
        tuple(
            (
                Value(failure.task),
                Value(decoding(failure.temperature)),
                Value(failure.contestant),
                Value(str(failure.count), failure.count),
                Value(failure.error),
            )
            for failure in summary.failures
        ),
    )


def of_curve(curve: Curve) -> Table:
    """The points of a growth curve, how they grew, and how they should."""
    lines = curve.series
    rows = []
    for x in curve.places:
        points = [line.at(x) for line in lines]
        rows.append(
            (Value(amount(x), x), *(_value(None if p is None else p.value, figure) for p in points))
        )
    grew = (_value(line.power, lambda power: f"n^{round(power, 2) + 0.0:.2f}") for line in lines)
    return Table(
        curve.name,
        (
            Column(curve.x_name),
            *(Column(", ".join(filter(None, (line.name, curve.unit)))) for line in lines),
        ),
        tuple(rows),
        (
            (Value("grew as"), *grew),
            (Value("expected"), *(Value(line.expected) for line in lines)),
        ),
    )


def _settings(contestant: Contestant) -> str:
    if contestant.absent is not None:
        return f"absent: {contestant.absent}"
    given = (
        f"{key}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, value in contestant.settings.items()
    )
    return ", ".join(given) or "defaults"


def _value(number: float | None, write: Callable[[float], str]) -> Value:
    return Value(MISSING) if number is None else Value(write(number), number)


def _ratio(cell: Cell, kind: str) -> Value:
    ratio = cell.own if kind == "own" else cell.peer
    return Value(MISSING) if ratio is None else Value(times(ratio), ratio.mean)


def _equal(cell: Cell) -> Value:
    if not cell.compared:
        return Value(MISSING)
    return Value(f"{cell.equal} of {cell.compared}", cell.equal / cell.compared)
