"""Model files: an open GGUF file and typed access to its metadata.

The header is parsed and validated natively (``csrc/gguf/gguf.h``). The file is untrusted: whatever
is wrong with it ends in one :class:`~maglio.errors.ModelFileError` that names the file. One case
is beyond us: a file of more than 64 MiB is mapped, and the system ends a program that reads where
a mapped file was cut short meanwhile.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from maglio import _core
from maglio.errors import ModelFileError
from maglio.files import open_regular

_MAX_COUNT = 1 << 26
_MAX_READ = 1 << 26
_REAL_RANGE = (1e-30, 1e30)


class ModelFile:
    """An open GGUF file.

    ``metadata`` maps keys to numbers, strings, lists of strings and NumPy arrays; ``tensors`` maps
    names to :class:`maglio._core.TensorInfo`.

    Raises:
        ModelFileError: the file cannot be read, or is not a sound GGUF file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self._status, self._bytes = _read(self.path)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ModelFileError(f"cannot read {self.path}: {reason}") from error
        try:
            self.header = _core.GgufFile(self._bytes)
        except _core.GgufError as error:
            raise ModelFileError(f"cannot load {self.path}: {error}") from error
        self.metadata: Mapping[str, object] = self.header.metadata()
        self.tensors = {tensor.name: tensor for tensor in self.header.tensors()}
        self._check_unsplit()

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return int(self._bytes.size)

    def check_unchanged(self) -> None:
        """Say whether all that was read until now was one and the same file.

        One that was deleted or replaced is; one that somebody writes into is not.

        Raises:
            ModelFileError: somebody has written into it.
        """
        before = self._status
        try:
            now = os.stat(self.path)
        except OSError:
            return
        if (now.st_dev, now.st_ino) != (before.st_dev, before.st_ino):
            return
        if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            raise self.error(
                "it was written to while it was read; wait until it is complete, and load it again"
            )

    def _check_unsplit(self) -> None:
        count = self.metadata.get("split.count", 0)
        if not isinstance(count, int) or count <= 1:
            return
        number = self.metadata.get("split.no", 0)
        part = f"part {number + 1}" if isinstance(number, int) else "a part"
        raise self.error(
            f"it is {part} of {count} of a split model, and split files are not supported yet; "
            "merge the parts with llama.cpp's llama-gguf-split --merge"
        )

    def error(self, problem: str) -> ModelFileError:
        """Make an error about this file."""
        return ModelFileError(f"cannot load {self.path}: {problem}")

    def text(self, key: str) -> str:
        """Return a string that must be there."""
        value = self.metadata.get(key)
        if not isinstance(value, str):
            raise self.error(f"metadata {key!r} is missing or not a string")
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        """Return a positive dimension or count, or ``default`` when the key is absent."""
        value = self.metadata.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(f"metadata {key!r} is missing or not a whole number")
        if not 0 < value <= _MAX_COUNT:
            raise self.error(f"metadata {key!r} is {value}, which is not plausible")
        return value

    def real(self, key: str, default: float | None = None) -> float:
        """Return a positive number, or ``default`` when the key is absent."""
        value = self.metadata.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(f"metadata {key!r} is missing or not a number")
        if not _REAL_RANGE[0] <= value <= _REAL_RANGE[1]:
            raise self.error(f"metadata {key!r} is {value}, which is not plausible")
        return float(value)


def _read(path: Path) -> tuple[os.stat_result, npt.NDArray[np.uint8]]:
    """What is in a file: read if it is small, so that nobody can change it, and mapped if not."""
    with open_regular(path) as file:
        status = os.fstat(file.fileno())
        if status.st_size > _MAX_READ:
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return status, np.frombuffer(mapping, dtype=np.uint8)
        data = np.empty(status.st_size, dtype=np.uint8)
        return status, data[: file.readinto(data.data)]
