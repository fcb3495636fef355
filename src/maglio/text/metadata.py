"""Typed access to GGUF metadata: every surprise becomes a :class:`ModelFileError`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from maglio.errors import ModelFileError, UnsupportedModelError


class Metadata:
    """GGUF metadata by key. A missing key reads as None (or the default) unless required."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    def updated(self, values: Mapping[str, object]) -> Metadata:
        """Return a copy with other values for some keys."""
        return Metadata({**self._values, **values})

    def text(self, key: str, default: str = "") -> str:
        """Return the string at ``key``."""
        value = self._values.get(key, default)
        if not isinstance(value, str):
            raise _wrong_type(key, value, "a string")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Return the bool at ``key``."""
        value = self._values.get(key, default)
        if not isinstance(value, bool | np.bool_):
            raise _wrong_type(key, value, "a bool")
        return bool(value)

    def integer(self, key: str) -> int | None:
        """Return the integer at ``key``, or None if there is none."""
        value = self._values.get(key)
        if value is None:
            return None
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
            raise _wrong_type(key, value, "an integer")
        return int(value)

    def only(self, key: str, expected: bool) -> None:
        """Refuse another truth value at ``key``."""
        if self.flag(key, expected) is not expected:
            raise UnsupportedModelError(
                f"model file metadata {key} is {not expected}, which is not supported"
            )

    def texts(self, key: str) -> list[str]:
        """Return the list of strings at ``key``, which must be there."""
        value = self._values.get(key)
        if value is None:
            raise ModelFileError(f"model file metadata lacks {key}, which its tokenizer needs")
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise _wrong_type(key, value, "a list of strings")
        return value

    def array(
        self, key: str, dtype: type[np.generic], length: int, default: int
    ) -> npt.NDArray[Any]:
        """Return the numbers at ``key`` as ``dtype (length,)``, filled with the default if absent.

        Raises :class:`ModelFileError` if the value is not such an array.
        """
        value = self._values.get(key)
        if value is None:
            return np.full(length, default, dtype)
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "iuf" or value.ndim != 1:
            raise _wrong_type(key, value, "a one-dimensional array of numbers")
        if len(value) != length:
            raise ModelFileError(
                f"model file metadata {key} has {len(value)} entries for {length} tokens"
            )
        return np.ascontiguousarray(value, dtype)


def _wrong_type(key: str, value: object, expected: str) -> ModelFileError:
    return ModelFileError(
        f"model file metadata {key} should be {expected}, not {type(value).__name__}"
    )
