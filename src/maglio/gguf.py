"""Model files: an open GGUF file and typed access to its metadata.

Headers are parsed and validated natively (``csrc/gguf/gguf.h``). Files are untrusted: whatever is
wrong with them, or happens to them while they are read, ends in one
:class:`~maglio.errors.ModelFileError` that names the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from maglio import _core
from maglio.errors import ModelFileError
from maglio.gguf_parts import open_parts

_MAX_COUNT = 1 << 26
_REAL_RANGE = (1e-30, 1e30)


class ModelFile:
    """An open GGUF file, or the parts of a split one.

    ``metadata`` maps keys to numbers, strings, lists of strings and NumPy arrays; ``tensors`` maps
    names to :class:`maglio._core.TensorInfo`.

    Args:
        path: the file; the first part of a model that is split.

    Raises:
        ModelFileError: a file cannot be read, or is not a sound GGUF file, or a part is missing or
            not what it should be.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._parts = open_parts(self.path)
        try:
            self.header = _core.GgufFile(self._parts)
        except _core.GgufError as error:
            raise self.error(str(error)) from error
        self.metadata: Mapping[str, object] = self._parts[0].metadata()
        self.tensors = {tensor.name: tensor for tensor in self.header.tensors()}

    @property
    def size(self) -> int:
        """Bytes of all parts."""
        return sum(part.size for part in self._parts)

    def check_unchanged(self) -> None:
        """Say whether all that was read until now was one and the same file.

        One that was deleted or replaced is; one that somebody writes into is not.

        Raises:
            ModelFileError: somebody has written into it.
        """
        try:
            self.header.check_unchanged()
        except _core.GgufError as error:
            raise self.error(str(error)) from error

    def error(self, problem: str, kind: type[ModelFileError] = ModelFileError) -> ModelFileError:
        """Make an error about this file."""
        return kind(f"cannot load {self.path}: {problem}")

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
