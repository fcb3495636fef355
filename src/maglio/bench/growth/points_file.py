"""A file of results that points of growth curves are added to, one by one.

Boundary: a file that grows at its end. What was measured before is not measured again.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from maglio.bench.field.line import GrowthPoint, Header
from maglio.bench.field.results import MAX_FILE_BYTES, as_line, parse_results
from maglio.errors import DataFileError, InvalidArgumentError
from maglio.files import open_to_append, read_bounded


class PointsFile:
    """Results to add to, of ``maglio bench field`` or of growth alone. Leaving ``with`` closes it.

    Args:
        path: the file; a new one begins with ``header``.
        header: of this measurement; what a file holds must be of the same model and threads.

    Raises:
        DataFileError: it cannot be read or written, or is damaged or in use.
        InvalidArgumentError: it holds results of another model or with other threads.
    """

    def __init__(self, path: Path, header: Header) -> None:
        self._path = path
        try:
            self._file = open_to_append(path)
        except BlockingIOError:
            raise DataFileError(f"{path} is being written by another process") from None
        except OSError as error:
            raise self._error(error) from error
        try:
            self._known = self._read(header)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> PointsFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def __len__(self) -> int:
        """Points in the file."""
        return len(self._known)

    def lacks(self, curve: str, series: str, x: float) -> bool:
        """Whether a point is not in it yet."""
        return (curve, series, x) not in self._known

    def add(self, point: GrowthPoint) -> None:
        """Write a point. Raises :class:`DataFileError` if it cannot be written."""
        self._write(as_line(point))
        self._known.add((point.curve, point.series, point.x))

    def _read(self, header: Header) -> set[tuple[str, str, float]]:
        try:
            data = read_bounded(self._file, MAX_FILE_BYTES)
            whole = data.rfind(b"\n") + 1
            if whole < len(data):  # a line that was being written when its process ended
                self._file.truncate(whole)
        except OSError as error:
            raise self._error(error) from error
        if whole == 0:
            self._write(as_line(header))
            return set()
        results = parse_results(data, str(self._path))
        old = results.header
        if (old.model.digest, old.threads) != (header.model.digest, header.threads):
            raise InvalidArgumentError(
                f"{self._path} is about {old.model.name} with {old.threads} threads; give another "
                f"file for {header.model.name} with {header.threads}"
            )
        return {(point.curve, point.series, point.x) for point in results.growth}

    def _write(self, line: bytes) -> None:
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise self._error(error) from error

    def _error(self, error: OSError) -> DataFileError:
        return DataFileError(f"cannot use {self._path}: {error.strerror or error}")
