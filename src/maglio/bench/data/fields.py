"""Typed access to parsed JSON: a wrong shape is an error that says where, never a traceback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maglio.errors import DataFileError


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a file, with its place for messages.

    Attributes:
        value: the parsed JSON object.
        where: file and record, such as ``gsm8k.jsonl, record 3``.
    """

    value: Mapping[str, Any]
    where: str

    def text(self, key: str) -> str:
        """The string at ``key``. Raises :class:`DataFileError` if it is not one."""
        value = self.value.get(key)
        if not isinstance(value, str):
            raise self.error(f"{key!r} is not a string")
        return value

    def items(self, key: str) -> Sequence[Any]:
        """The non-empty list at ``key``. Raises :class:`DataFileError` if it is not one."""
        value = self.value.get(key)
        if not isinstance(value, list) or not value:
            raise self.error(f"{key!r} is not a list, or is empty")
        return value

    def texts(self, key: str) -> Sequence[str]:
        """The list of strings at ``key``. Raises :class:`DataFileError` if it is not one."""
        values = self.items(key)
        if not all(isinstance(value, str) for value in values):
            raise self.error(f"{key!r} holds something that is not a string")
        return values

    def records(self, key: str) -> Sequence[Record]:
        """The list of objects at ``key``. Raises :class:`DataFileError` if it is not one."""
        values = self.items(key)
        if not all(isinstance(value, dict) for value in values):
            raise self.error(f"{key!r} holds something that is not an object")
        return [Record(v, f"{self.where}, {key}[{i}]") for i, v in enumerate(values)]

    def error(self, what: str) -> DataFileError:
        """An error about this record."""
        return DataFileError(f"{self.where}: {what}; the file is damaged or of another kind")
