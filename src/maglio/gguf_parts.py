"""Models split into several files, as llama.cpp's llama-gguf-split makes them.

The files of a model are named ``name-00001-of-00003.gguf`` and so on. Each says in its metadata
which part it is (``split.no``, from 0) and of how many (``split.count``), and how many tensors all
of them have (``split.tensors.count``).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from maglio import _core
from maglio.errors import ModelFileError
from maglio.files import open_regular

_NAME = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)


def open_parts(path: Path) -> list[_core.GgufPart]:
    """Open a model file, and if it is the first part of a split one, the others.

    Raises:
        ModelFileError: a file cannot be read or is not a sound GGUF file; a part is missing or not
            what it should be; ``path`` is a part, but not the first.
    """
    first = _open(path)
    count = _count(path, first, "split.count", 1)
    if count <= 1:
        return [first]
    paths = _paths(path, _count(path, first, "split.no", 0) + 1, count)
    parts = [first, *(_open_further(paths, number) for number in range(2, count + 1))]
    # Parts of another model are found out by this, or because they bring a tensor a second time.
    found = sum(part.n_tensors for part in parts)
    announced = _count(path, first, "split.tensors.count", found)
    if found != announced:
        raise _error(
            path,
            f"it announces {announced} tensors, and its {count} parts have {found}; download the "
            "parts again",
        )
    return parts


def files_of(path: Path) -> list[Path]:
    """Every file of a model, by the name of its first part, or of its folder; those that exist."""
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.is_file())
    named = _NAME.fullmatch(path.name)
    if named is None or int(named["number"]) != 1:
        return [path]
    further = _names(named["stem"], int(named["count"]))[1:]
    return [path, *(part for name in further if (part := path.with_name(name)).is_file())]


def _open(path: Path) -> _core.GgufPart:
    try:
        with open_regular(path) as file:
            return _core.GgufPart(file.fileno())
    except _core.GgufError as error:
        raise _error(path, str(error)) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelFileError(f"cannot read {path}: {reason}") from error


def _paths(path: Path, number: int, count: int) -> list[Path]:
    """Where all parts are. The one that was given has to be the first."""
    named = _NAME.fullmatch(path.name)
    if named is None or (int(named["number"]), int(named["count"])) != (number, count):
        raise _error(
            path,
            f"it is part {number} of {count} of a split model, so its name has to end in "
            f"-{number:05}-of-{count:05}.gguf, by which the other parts are found",
        )
    paths = [path.with_name(name) for name in _names(named["stem"], count)]
    if number != 1:
        raise _error(path, f"it is part {number} of {count} of a split model; load {paths[0]}")
    return paths


def _names(stem: str, count: int) -> list[str]:
    return [f"{stem}-{number:05}-of-{count:05}.gguf" for number in range(1, count + 1)]


def _open_further(paths: list[Path], number: int) -> _core.GgufPart:
    path, count = paths[number - 1], len(paths)
    if not os.path.exists(path):
        raise _error(
            path, f"part {number} of {count} of the model is missing; put all into one folder"
        )
    part = _open(path)
    says = _count(path, part, "split.no", 0) + 1, _count(path, part, "split.count", 1)
    if says != (number, count):
        raise _error(
            path,
            f"by its name it is part {number} of {count}, and it says that it is part {says[0]} of "
            f"{says[1]}; download the parts again",
        )
    return part


def _count(path: Path, part: _core.GgufPart, key: str, default: int) -> int:
    value = part.value(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise _error(path, f"metadata {key!r} is {value!r:.60}, which is not a count")
    return value


def _error(path: Path, problem: str) -> ModelFileError:
    return ModelFileError(f"cannot load {path}: {problem}")
