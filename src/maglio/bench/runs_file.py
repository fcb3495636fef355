"""Recorded runs on disk: a zip of numpy arrays, ``NN.prompt``, ``NN.output`` and their rows.

Keys of run ``NN``: ``NN.category`` (text), ``NN.prompt`` and ``NN.output`` (ids, int32), and of the
rows after each of their tokens the ids and logits of the best candidates, best first:
``NN.prompt_top8`` and ``NN.output_top8`` (int32), ``NN.prompt_logits8`` and ``NN.output_logits8``
(float32, optional). All rows have 8 candidates.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from maglio.bench.stream import TOP, Ids, TokenStream, Turn
from maglio.errors import DataFileError
from maglio.files import replacing

MAX_ARRAY_BYTES = 1 << 28
"""Largest array that is read from a recording."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One greedy generation. Rows follow the token of the same place.

    Attributes:
        category: kind of task.
        prompt: int32 ``(n,)``.
        output: int32 ``(m,)``; ``output[0]`` follows the last row of the prompt.
        prompt_ids, output_ids: ids of the best candidates, int32 ``(n, 8)`` and ``(m, 8)``.
        prompt_logits, output_logits: their logits, float32; ``None`` where not recorded.
    """

    category: str
    prompt: Ids
    output: Ids
    prompt_ids: Ids
    output_ids: Ids
    prompt_logits: npt.NDArray[np.float32] | None = None
    output_logits: npt.NDArray[np.float32] | None = None

    def stream(self) -> TokenStream:
        """The run as a stream to replay."""
        given = Turn(self.prompt, False, self.prompt_ids)
        return TokenStream(self.category, (given, Turn(self.output, True, self.output_ids)))


def write_runs(path: Path, runs: Iterable[Run]) -> None:
    """Write a recording; the file appears complete or not at all.

    Raises:
        DataFileError: it cannot be written.
    """
    arrays: dict[str, Any] = {}
    for index, run in enumerate(runs):
        arrays[f"{index:02d}.category"] = np.array(run.category)
        for side in ("prompt", "output"):
            arrays[f"{index:02d}.{side}"] = getattr(run, side)
            arrays[f"{index:02d}.{side}_top8"] = getattr(run, f"{side}_ids")
            logits = getattr(run, f"{side}_logits")
            if logits is not None:
                arrays[f"{index:02d}.{side}_logits8"] = logits
    try:
        with replacing(path) as file:
            np.savez_compressed(file, **arrays)
    except OSError as error:
        raise DataFileError(f"cannot write {path}: {error.strerror or error}") from error


def read_runs(path: Path, *, limit: int | None = None) -> list[Run]:
    """Read a recording, at most ``limit`` runs of it.

    Raises:
        DataFileError: it cannot be read, is damaged, or is not a recording.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = _Arrays(path, archive)
            runs = [arrays.run(prefix) for prefix in arrays.prefixes()[:limit]]
    except DataFileError:
        raise
    except OSError as error:
        raise DataFileError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:  # zipfile, its decompressors and NumPy raise a dozen kinds
        reason = str(error) or type(error).__name__
        raise DataFileError(f"{path} is damaged, or not a recording: {reason}") from error
    if not runs:
        raise DataFileError(f"{path} holds no recorded runs")
    return runs


class _Arrays:
    """The checked arrays of an open recording."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self._path = path
        self._archive = archive
        self._members = {info.filename: info for info in archive.infolist()}

    def prefixes(self) -> list[str]:
        names = {name.partition(".")[0] for name in self._members if name.endswith(".output.npy")}
        return sorted(names, key=lambda name: (len(name), name))

    def run(self, prefix: str) -> Run:
        prompt, output = (self._ids(f"{prefix}.{side}") for side in ("prompt", "output"))
        category = self._array(f"{prefix}.category")
        if category.ndim != 0 or category.dtype.kind != "U":
            raise self._error(f"{prefix}.category", "is no text")
        return Run(
            category=str(category),
            prompt=prompt,
            output=output,
            prompt_ids=self._rows(f"{prefix}.prompt_top8", len(prompt)),
            output_ids=self._rows(f"{prefix}.output_top8", len(output)),
            prompt_logits=self._logits(f"{prefix}.prompt_logits8", len(prompt)),
            output_logits=self._logits(f"{prefix}.output_logits8", len(output)),
        )

    def _ids(self, name: str) -> Ids:
        array = self._array(name)
        if array.ndim != 1 or array.size == 0:
            raise self._error(name, f"has shape {array.shape}, must be a list of ids")
        return self._checked_ids(name, array)

    def _rows(self, name: str, count: int) -> Ids:
        array = self._array(name)
        if array.shape != (count, TOP):
            raise self._error(name, f"has shape {array.shape}, must be {(count, TOP)}")
        return self._checked_ids(name, array)

    def _checked_ids(self, name: str, array: npt.NDArray[Any]) -> Ids:
        if array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= 1 << 24:
            raise self._error(name, "holds something that is no token id")
        return np.ascontiguousarray(array, dtype=np.int32)

    def _logits(self, name: str, count: int) -> npt.NDArray[np.float32] | None:
        if f"{name}.npy" not in self._members:
            return None
        array = self._array(name)
        if array.dtype != np.float32 or array.shape != (count, TOP):
            raise self._error(name, f"is {array.dtype} {array.shape}, must be {(count, TOP)}")
        return np.ascontiguousarray(array)

    def _array(self, name: str) -> npt.NDArray[Any]:
        info = self._members.get(f"{name}.npy")
        if info is None:
            raise self._error(name, "is missing")
        if info.file_size > MAX_ARRAY_BYTES:
            raise self._error(name, f"is larger than {MAX_ARRAY_BYTES >> 20} MiB")
        with self._archive.open(info) as member:
            array: npt.NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
        return array

    def _error(self, name: str, what: str) -> DataFileError:
        return DataFileError(f"{self._path}: {name} {what}; the recording is damaged or foreign")
