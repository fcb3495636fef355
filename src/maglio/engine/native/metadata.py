"""Metadata of a model file under its architecture's name.

A key that a family does not read would change what the model computes without anyone noticing, so
it is refused by name, unless it is known to say nothing about the computation.
"""

from __future__ import annotations

import copy
from collections import ChainMap
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from maglio import _core
from maglio.engine.native.harmless import HARMLESS, HARMLESS_PREFIXES
from maglio.errors import ModelFileError, UnsupportedModelError
from maglio.gguf import ModelFile

_MOST_LAYERS = 4096
"""For which anything is built; the core checks the rest."""

_MOST = 1 << 26
"""Of any count."""


class Metadata:
    """Typed access to the keys of an architecture; remembers what was read.

    An array of one value per layer that are all equal is read as that value.

    Args:
        file: the open model file.

    Raises:
        ModelFileError: a key is missing, of a wrong type or implausible, here and in all methods.
    """

    def __init__(self, file: ModelFile) -> None:
        self.architecture = file.text("general.architecture")
        self._read: set[str] = set()
        self._known_tensors: set[str] = set()
        self._whole = file
        n_layer = file.integer(f"{self.architecture}.block_count")
        if n_layer > _MOST_LAYERS:
            raise file.error(f"{n_layer} layers are not plausible")
        self._file = copy.copy(file)
        uniform = _uniform_arrays(file.metadata, self.architecture + ".", n_layer)
        self._file.metadata = ChainMap(uniform, dict(file.metadata))
        self.n_layer = self.integer("block_count")

    @property
    def layers(self) -> range:
        """Indices of the layers."""
        return range(self.n_layer)

    @property
    def known_tensors(self) -> set[str]:
        """Tensors that were read here, not as weights."""
        return self._known_tensors

    def has_tensor(self, name: str) -> bool:
        """Whether the file has a tensor."""
        return name in self._file.tensors

    def ignore_tensors(self, *prefixes: str) -> None:
        """Take note of tensors that are left out."""
        names = map(str, self._file.tensors)
        self._known_tensors.update(name for name in names if name.startswith(prefixes))

    def has(self, name: str) -> bool:
        """Whether the file has a key."""
        return self._key(name) in self._file.metadata

    def integer(self, name: str, default: int | None = None) -> int:
        """Return a positive dimension or count."""
        return self._file.integer(self._key(name), default)

    def integers(self, name: str, default: int | None = None) -> list[int]:
        """Return a positive dimension or count for each layer; a single one is that of all."""
        value = self._file.metadata.get(self._key(name))
        if not isinstance(value, list | np.ndarray):
            return [self.integer(name, default)] * self.n_layer
        whole = isinstance(value, np.ndarray) and np.issubdtype(value.dtype, np.integer)
        items = np.asarray(value).tolist() if whole else []
        if len(items) != self.n_layer or not all(0 < item <= _MOST for item in items):
            raise self.error(name, "is not one plausible whole number per layer")
        return items

    def real(self, name: str, default: float | None = None) -> float:
        """Return a positive number."""
        return self._file.real(self._key(name), default)

    def count(self, name: str, default: int = 0) -> int:
        """Return a count that may be none."""
        if self._is_zero(name) or (default == 0 and not self.has(name)):
            return 0
        return self.integer(name, default)

    def factor(self, name: str, none: float = 1.0) -> float:
        """Return a positive number; ``none`` if the key is absent or 0."""
        return none if self._is_zero(name) or not self.has(name) else self.real(name)

    def text(self, name: str, default: str) -> str:
        """Return a string."""
        return self._file.text(self._key(name)) if self.has(name) else default

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a truth value."""
        self.only(name, default, not default)
        return bool(self._file.metadata.get(self._key(name), default))

    def flags(self, name: str) -> list[bool] | None:
        """Return an array of one truth value per layer, or ``None`` if the key holds no array."""
        flags = self.array(name)
        if flags is None:
            return None
        if len(flags) != self.n_layer or not all(isinstance(f, bool | np.bool_) for f in flags):
            raise self.error(name, "is not one truth value per layer")
        return [bool(flag) for flag in flags]

    def array(self, name: str) -> list[object] | None:
        """Return the values of an array, or ``None`` if the key holds none."""
        value = self._whole.metadata.get(self._key(name))
        return list(value) if isinstance(value, list | np.ndarray) else None

    def only(self, name: str, *allowed: object) -> None:
        """Refuse a key by name unless it is absent or has one of these values."""
        value = self._file.metadata.get(self._key(name), allowed[0])
        if isinstance(value, list | np.ndarray) or value not in allowed:
            raise self.unsupported(
                name, f"is {value!r:.60}, which the native engine does not support"
            )

    def ignore(self, name: str) -> None:
        """Take note of a key that other engines do not honour for this family either."""
        self._key(name)

    def error(self, name: str, problem: str) -> ModelFileError:
        """Make an error about a key."""
        return self._file.error(f"metadata {self._key(name)!r} {problem}")

    def unsupported(self, name: str, problem: str) -> ModelFileError:
        """Make an error about a key that another engine may know what to do with."""
        return self._file.error(f"metadata {self._key(name)!r} {problem}", UnsupportedModelError)

    def vector(self, name: str) -> npt.NDArray[np.float64] | None:
        """Return the values of a tensor, or ``None`` if the file has none of that name."""
        if name not in self._file.tensors:
            return None
        self._known_tensors.add(name)
        try:
            return np.asarray(_core.read_vector(self._file.header, name), np.float64)
        except _core.GgufError as error:
            raise self._file.error(str(error)) from error

    def file_error(self, problem: str) -> ModelFileError:
        """Make an error about the file."""
        return self._file.error(problem)

    def check_all_read(self) -> None:
        """Refuse a key that nobody has read."""
        prefix = self.architecture + "."
        for key in self._file.metadata:
            name = key.removeprefix(prefix)
            if name == key or name in self._read or name in HARMLESS:
                continue
            if not name.startswith(HARMLESS_PREFIXES):
                raise self.unsupported(
                    name[:60],
                    f"is not part of the {self.architecture} models that the native engine knows, "
                    "so its output could be wrong",
                )

    def _key(self, name: str) -> str:
        self._read.add(name)
        return f"{self.architecture}.{name}"

    def _is_zero(self, name: str) -> bool:
        value = self._file.metadata.get(self._key(name))
        return isinstance(value, int | float) and not isinstance(value, bool) and value == 0


def _uniform_arrays(metadata: Mapping[str, object], prefix: str, n_layer: int) -> dict[str, object]:
    uniform: dict[str, object] = {}
    for key, value in metadata.items():
        if not key.startswith(prefix):
            continue
        if isinstance(value, list | np.ndarray) and len(value) == n_layer:
            items = value.tolist() if isinstance(value, np.ndarray) else value
            if all(item == items[0] for item in items):
                uniform[key] = items[0]
    return uniform
