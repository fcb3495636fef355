"""Recognises a benchmark file by what is in it, and reads its conversations.

Files are read whole, up to a bound, so a hostile or mistaken one costs an error and no more.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from maglio.bench.data.agents import read_react, read_trajectory
from maglio.bench.data.answers import (
    read_completion,
    read_edit,
    read_function_call,
    read_json_answer,
    read_maths,
)
from maglio.bench.data.dialogue import Dialogue
from maglio.bench.data.fields import Record
from maglio.bench.data.questions import read_questions
from maglio.errors import DataFileError

MAX_FILE_BYTES = 1 << 28
"""Largest file that is read, after decompression."""

_READERS: tuple[tuple[frozenset[str], Callable[[Record], Dialogue]], ...] = (
    (frozenset({"turns", "category"}), read_questions),
    (frozenset({"history"}), read_trajectory),
    (frozenset({"instruction", "input", "output"}), read_edit),
    (frozenset({"prompt", "canonical_solution"}), read_completion),
    (frozenset({"title", "context", "question", "answer"}), read_json_answer),
    (frozenset({"question", "answer"}), read_maths),
)
_CALL_KEYS = frozenset({"id", "question", "function"})


def read_dialogues(path: Path, *, limit: int | None = None) -> list[Dialogue]:
    """Return the conversations of a file, or of the ``.traj`` files of a folder.

    Args:
        path: Spec-Bench, MT-bench, EditEval, HumanEval, GSM8K, BFCL (the answer file is expected
            beside it), ArcticInference's JSON mode, ReAct traces, or SWE-agent trajectories.
        limit: at most this many conversations, the first ones.

    Raises:
        DataFileError: the path cannot be read, or what is there is damaged or unknown.
    """
    if path.is_dir():
        files = sorted(path.glob("*.traj"))[:limit]
        if not files:
            raise DataFileError(f"there is no .traj file in {path}")
        return [dialogue for file in files for dialogue in read_dialogues(file)]
    records = _records(path)[:limit]
    if records[0].value.keys() >= _CALL_KEYS:
        return _function_calls(path, records)
    reader = _reader(records[0])
    return [reader(record) for record in records]


def _reader(record: Record) -> Callable[[Record], Dialogue]:
    for keys, reader in _READERS:
        if record.value.keys() >= keys:
            return reader
    values = list(record.value.values())
    if len(values) == 1 and isinstance(values[0], list):
        return read_react
    raise record.error(f"no known kind of data has the keys {', '.join(sorted(record.value)):.200}")


def _function_calls(path: Path, records: list[Record]) -> list[Dialogue]:
    answer_path = path.with_name(f"{path.stem}_answer{path.suffix}")
    answers = {answer.text("id"): answer for answer in _records(answer_path)}
    dialogues = []
    for record in records:
        answer = answers.get(record.text("id"))
        if answer is None:
            raise record.error(f"there is no answer to {record.text('id')} in {answer_path.name}")
        dialogues.append(read_function_call(record, answer))
    return dialogues


def _records(path: Path) -> list[Record]:
    """The objects of a file that is a JSON object, a JSON array, or one object per line."""
    text = _text(path)
    values = _parse(path, text)
    if not values:
        raise DataFileError(f"{path} holds no records")
    for index, value in enumerate(values):
        if not isinstance(value, dict) or not value:
            raise DataFileError(f"{path}, record {index + 1}: this is not a JSON object with keys")
    return [Record(value, f"{path}, record {index + 1}") for index, value in enumerate(values)]


def _parse(path: Path, text: str) -> list[Any]:
    lines = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        return []
    try:
        first = json.loads(lines[0][1])
    except (ValueError, RecursionError):
        whole = _value(path, text, 1)
        return whole if isinstance(whole, list) else [whole]
    if isinstance(first, list):
        return first
    return [first, *(_value(path, line, n) for n, line in lines[1:])]


def _value(path: Path, text: str, line: int) -> Any:  # noqa: ANN401  # whatever JSON holds
    """Parse what begins in ``line`` of the file."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        problem = str(error)
        if isinstance(error, json.JSONDecodeError):
            line += error.lineno - 1
            problem = f"{error.msg} at column {error.colno}"
        raise DataFileError(
            f"{path} is neither JSON nor lines of JSON: line {line}: {problem}"
        ) from error


def _text(path: Path) -> str:
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as compressed:
                data = compressed.read(MAX_FILE_BYTES + 1)
        else:
            with path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataFileError(f"cannot read {path}: {reason}") from error
    if len(data) > MAX_FILE_BYTES:
        raise DataFileError(f"{path} is larger than {MAX_FILE_BYTES >> 20} MiB; split it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataFileError(f"{path} is not UTF-8 text: {error}") from error
