"""A summary in a file: JSON lines like those of the runs, with a line for each cell instead.

Boundary: bytes to :class:`~maglio.bench.field.summary.Summary` and back. Such a file is small
enough to be kept beside the code; whatever reads a file of results reads either kind.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from maglio.bench.field.line import PeakMemory
from maglio.bench.field.ratio import Ratio
from maglio.bench.field.results import MAX_FILE_BYTES, MAX_NUMBER, as_line, parse_results
from maglio.bench.field.summary import Cell, Failure, Summary, summarise
from maglio.errors import DataFileError
from maglio.files import read_regular, write_atomic

_T = TypeVar("_T", Cell, Failure, Ratio)
_CELL, _FAILURE = "cell", "failure"


def read_summary(path: Path) -> Summary:
    """Read a file of results, or one that :func:`write_summary` wrote.

    Raises:
        DataFileError: it cannot be read, is too large, or is damaged.
    """
    try:
        data = read_regular(path, MAX_FILE_BYTES)
    except OSError as error:
        raise DataFileError(f"cannot read {path}: {error.strerror or error}") from error
    cells: list[Cell] = []
    failures: list[Failure] = []
    others: list[bytes] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        where = f"{path}, line {number}"
        if line.startswith(_start(_CELL)):
            cells.append(_made(Cell, _document(line, where), where))
        elif line.startswith(_start(_FAILURE)):
            failures.append(_made(Failure, _document(line, where), where))
        else:
            others.append(line)
    results = parse_results(b"\n".join(others), str(path))
    if not cells and not failures:
        return summarise(results)
    if results.runs:
        raise DataFileError(f"{path} has lines of runs and of cells; it is damaged")
    names = {one.name for one in results.header.contestants}
    tasks = {task.name for task in results.header.tasks}
    entries: list[Cell | Failure] = [*cells, *failures]
    for entry in entries:
        if entry.contestant not in names or entry.task not in tasks:
            raise DataFileError(
                f"{path}: the first line does not name {entry.task!r:.80} and "
                f"{entry.contestant!r:.80}, which a cell does; the file is damaged"
            )
    return dataclasses.replace(summarise(results), cells=tuple(cells), failures=tuple(failures))


def write_summary(path: Path, summary: Summary) -> None:
    """Write a summary.

    Raises:
        DataFileError: it cannot be written.
    """
    lines = [
        as_line(summary.header),
        *(as_line(PeakMemory(name, peak)) for name, peak in summary.memory.items()),
        *map(as_line, summary.growth),
        *(_line(_CELL, cell) for cell in summary.cells),
        *(_line(_FAILURE, failure) for failure in summary.failures),
    ]
    try:
        write_atomic(path, b"".join(lines))
    except OSError as error:
        raise DataFileError(f"cannot write {path}: {error.strerror or error}") from error


def _line(kind: str, value: Cell | Failure) -> bytes:
    document = {"kind": kind, **dataclasses.asdict(value)}
    return json.dumps(document, allow_nan=False).encode() + b"\n"


def _start(kind: str) -> bytes:
    return f'{{"kind": "{kind}"'.encode()


def _document(line: bytes, where: str) -> Mapping[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataFileError(f"{where} is not valid JSON: {error}") from error
    return {key: entry for key, entry in value.items() if key != "kind"}


def _made(kind: type[_T], value: object, where: str) -> _T:
    """A value of the fields of a JSON object, each of the type that it is annotated with."""
    hints = get_type_hints(kind)
    if not isinstance(value, Mapping) or set(value) != set(hints):
        raise DataFileError(f"{where}: its keys must be {', '.join(hints)}; the file is damaged")
    checked: dict[str, Any] = {
        key: _checked(hints[key], value[key], f"{where}, {key}") for key in hints
    }
    return kind(**checked)


def _checked(hint: object, value: object, where: str) -> object:
    if value is None and hint in (float | None, Ratio | None):
        return None
    if hint == Ratio | None:
        return _made(Ratio, value, where)
    if hint is str and isinstance(value, str):
        return value
    if hint is int and type(value) is int and 0 <= value <= MAX_NUMBER:
        return value
    if hint in (float, float | None) and type(value) in (int, float):
        number = float(value)  # type: ignore[arg-type]
        if math.isfinite(number) and number >= 0.0:
            return number
    raise DataFileError(f"{where} is {value!r:.80}, which cannot be; the file is damaged")
