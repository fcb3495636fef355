"""Model files: a mapped GGUF file and typed access to its metadata.

The header is parsed and validated natively (``csrc/gguf/gguf.h``). The file is untrusted: whatever
is wrong with it ends in one :class:`~maglio.errors.ModelFileError` that names the file.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from maglio import _core
from maglio.errors import ModelFileError

_MAX_COUNT = 1 << 26
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
            self._bytes = _map(self.path)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ModelFileError(f"cannot read {self.path}: {reason}") from error
        try:
            self.header = _core.GgufFile(self._bytes)
        except _core.GgufError as error:
            raise ModelFileError(f"cannot load {self.path}: {error}") from error
        self.metadata: Mapping[str, object] = self.header.metadata()
        self.tensors = {tensor.name: tensor for tensor in self.header.tensors()}

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return int(self._bytes.size)

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


def _map(path: Path) -> npt.NDArray[np.uint8]:
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return np.empty(0, dtype=np.uint8)
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(mapping, dtype=np.uint8)
