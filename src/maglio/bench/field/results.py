"""The file of results of ``maglio bench field``: JSON lines, read and written.

Boundary: bytes to the values of :mod:`~maglio.bench.field.line`, and back. A file is not trusted
until it is read whole.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maglio.bench.data.fields import Record
from maglio.bench.field.line import (
    Contestant,
    FieldMachine,
    FieldModel,
    FieldRun,
    FieldTask,
    GrowthPoint,
    Header,
    Line,
    PeakMemory,
)
from maglio.errors import DataFileError
from maglio.files import read_regular

VERSION = 1
MAX_FILE_BYTES = 1 << 28
"""Largest file of results that is read."""

MAX_NUMBER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class FieldResults:
    """What a file says.

    Attributes:
        header: what is compared.
        runs: in the order in which they were made; of each cell one.
        memory: peak bytes by contestant; the largest where a file was resumed.
        growth: in the order of the file.
    """

    header: Header
    runs: tuple[FieldRun, ...]
    memory: Mapping[str, int]
    growth: tuple[GrowthPoint, ...]


def read_results(path: Path) -> FieldResults:
    """Read a file of results. A last line without its end was being written, and is left out.

    Raises:
        DataFileError: the file cannot be read, is larger than :data:`MAX_FILE_BYTES`, or has a line
            that is damaged, unknown, or names what the first line does not.
    """
    try:
        data = read_regular(path, MAX_FILE_BYTES)
    except OSError as error:
        raise DataFileError(f"cannot read {path}: {error.strerror or error}") from error
    return parse_results(data, str(path))


def parse_results(data: bytes, name: str) -> FieldResults:
    """The same of bytes; ``name`` is for messages. Raises :class:`DataFileError`."""
    whole = data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]
    lines = [_line(line, f"{name}, line {number}") for number, line in enumerate(whole, 1)]
    header = lines[0] if lines else None
    if not isinstance(header, Header):
        raise DataFileError(f"{name}: the first line is not that of 'maglio bench field'")
    runs: dict[object, FieldRun] = {}
    memory: dict[str, int] = {}
    growth: list[GrowthPoint] = []
    for number, line in enumerate(lines[1:], 2):
        where = Record({}, f"{name}, line {number}")
        _check_names(line, header, where)
        if isinstance(line, FieldRun):
            if line.cell in runs:
                raise where.error("this run stands in the file twice")
            runs[line.cell] = line
        elif isinstance(line, PeakMemory):
            memory[line.contestant] = max(line.peak_bytes, memory.get(line.contestant, 0))
        elif isinstance(line, GrowthPoint):
            growth.append(line)
        else:
            raise where.error("a file has one first line")
    return FieldResults(header, tuple(runs.values()), memory, tuple(growth))


def as_line(value: Line) -> bytes:
    """A line of the file, with its end."""
    document = {"kind": _KINDS[type(value)], **dataclasses.asdict(value)}
    if isinstance(value, Header):
        document = {"kind": "field", "version": VERSION, **document}
    return json.dumps(document, allow_nan=False).encode() + b"\n"


def _check_names(line: Line, header: Header, where: Record) -> None:
    contestant = getattr(line, "contestant", None)
    if contestant is not None and all(contestant != one.name for one in header.contestants):
        raise where.error(f"the first line names no contestant {contestant!r:.80}")
    if isinstance(line, FieldRun) and all(line.task != task.name for task in header.tasks):
        raise where.error(f"the first line names no task {line.task!r:.80}")


def _line(data: bytes, where: str) -> Line:
    try:
        value = json.loads(data, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise DataFileError(f"{where} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise DataFileError(f"{where} is not a JSON object")
    fields = _Fields(value, where)
    read = _READERS.get(fields.text("kind"))
    if read is None:
        raise fields.error(f"there is no kind {value['kind']!r:.80}")
    return read(fields)


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not a number")


class _Fields(Record):
    """One line, and typed access to what it says."""

    def integer(self, key: str) -> int:
        """A whole number from 0."""
        value = self.value.get(key)
        if type(value) is not int or not 0 <= value <= MAX_NUMBER:
            raise self.error(f"{key!r} is {value!r:.80}, must be a whole number from 0")
        return value

    def real(self, key: str) -> float:
        """A number from 0."""
        value: Any = self.value.get(key)
        if type(value) not in (int, float) or not 0 <= value <= MAX_NUMBER:
            raise self.error(f"{key!r} is {value!r:.80}, must be a number from 0")
        return float(value)

    def optional(self, key: str, read: Callable[[str], Any]) -> Any:  # noqa: ANN401
        """``None`` where the line says ``null``, else what ``read`` reads."""
        if key not in self.value:
            raise self.error(f"{key!r} is missing")
        return None if self.value[key] is None else read(key)

    def flag(self, key: str) -> bool:
        """A truth value."""
        value = self.value.get(key)
        if not isinstance(value, bool):
            raise self.error(f"{key!r} is {value!r:.80}, must be true or false")
        return value

    def inner(self, key: str) -> _Fields:
        """An object in it."""
        value = self.value.get(key)
        if not isinstance(value, dict):
            raise self.error(f"{key!r} is not an object")
        return _Fields(value, f"{self.where}, {key}")

    def inners(self, key: str) -> list[_Fields]:
        """A list of objects in it, which may be empty."""
        records = [] if self.value.get(key) == [] else self.records(key)
        found = [_Fields(record.value, record.where) for record in records]
        names = [one.text("name") for one in found]
        if len(set(names)) < len(names):
            raise self.error(f"{key!r} holds a name twice")
        return found


def _header(line: _Fields) -> Header:
    if line.integer("version") != VERSION:
        raise line.error(f"this is version {line.integer('version')}, Maglio reads {VERSION}")
    model, machine = line.inner("model"), line.inner("machine")
    return Header(
        FieldModel(model.text("name"), model.integer("bytes"), model.text("digest")),
        FieldMachine(
            machine.text("cpu"),
            machine.integer("cores"),
            machine.text("isa"),
            machine.optional("memory_gb_per_s", machine.real),
        ),
        line.integer("threads"),
        line.integer("n_ctx"),
        line.integer("max_tokens"),
        line.integer("rounds"),
        line.text("started"),
        tuple(map(_contestant, line.inners("contestants"))),
        tuple(map(_task, line.inners("tasks"))),
    )


def _contestant(line: _Fields) -> Contestant:
    return Contestant(
        line.text("name"),
        line.text("engine"),
        line.text("method"),
        dict(line.inner("settings").value),
        line.text("version"),
        line.optional("absent", line.text),
    )


def _task(line: _Fields) -> FieldTask:
    return FieldTask(
        line.text("name"), line.text("data"), line.integer("prompts"), line.text("expected")
    )


def _run(line: _Fields) -> FieldRun:
    return FieldRun(
        task=line.text("task"),
        prompt=line.text("prompt"),
        round=line.integer("round"),
        contestant=line.text("contestant"),
        temperature=line.real("temperature"),
        tokens=line.integer("tokens"),
        decode_s=line.real("decode_s"),
        first_token_s=line.real("first_token_s"),
        steps=line.optional("steps", line.integer),
        drafted=line.optional("drafted", line.integer),
        accepted=line.optional("accepted", line.integer),
        equal=line.optional("equal", line.flag),
        digest=line.text("digest"),
        error=line.optional("error", line.text),
    )


def _memory(line: _Fields) -> PeakMemory:
    return PeakMemory(line.text("contestant"), line.integer("peak_bytes"))


def _growth(line: _Fields) -> GrowthPoint:
    return GrowthPoint(
        curve=line.text("curve"),
        x=line.real("x"),
        x_name=line.text("x_name"),
        contestant=line.optional("contestant", line.text),
        series=line.text("series"),
        value=line.real("value"),
        low=line.real("low"),
        high=line.real("high"),
        unit=line.text("unit"),
        expected=line.text("expected"),
    )


_READERS: Mapping[str, Callable[[_Fields], Line]] = {
    "field": _header,
    "run": _run,
    "memory": _memory,
    "growth": _growth,
}
_KINDS: Mapping[type, str] = {
    Header: "field",
    FieldRun: "run",
    PeakMemory: "memory",
    GrowthPoint: "growth",
}
