"""The file of results while it is written: a line at a time, and gone on with where it ended.

Boundary: bytes and files. What is there is read and compared before anything is changed; a last
line that was not written to its end is removed.
"""

from __future__ import annotations

import errno
import os
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType

from maglio.bench.field.line import FieldRun, Header, Line
from maglio.bench.field.results import MAX_FILE_BYTES, FieldResults, as_line, parse_results
from maglio.errors import DataFileError
from maglio.files import open_to_append, read_bounded

_BEGINNING = b'{"kind": "field"'


class ResultsFile:
    """An open file of results. Leaving ``with`` closes it.

    Args:
        path: the file; made if it does not exist.
        header: what is compared. A file that is there must be about the same.

    Attributes:
        done: the runs that are there, by cell.

    Raises:
        DataFileError: the file cannot be used, another process writes it, or it is about something
            else. It is unchanged then.
    """

    def __init__(self, path: Path, header: Header) -> None:
        self._path = path
        self.done: dict[tuple[object, ...], FieldRun] = {}
        try:
            self._file = open_to_append(path)
        except BlockingIOError as error:
            raise DataFileError(f"{path} is being written by another process") from error
        except OSError as error:
            raise self._cannot("use", error) from error
        try:
            self._continue(header)
        except BaseException as error:
            self._file.close()
            if isinstance(error, OSError):
                raise self._cannot("use", error) from error
            raise

    def write(self, line: Line) -> None:
        """Append a line. Raises :class:`DataFileError` if that is not possible."""
        rest = memoryview(as_line(line))
        try:
            while rest:
                rest = rest[os.write(self._file.fileno(), rest) :]
        except OSError as error:
            raise self._cannot("write", error) from error
        if isinstance(line, FieldRun):
            self.done[line.cell] = line

    def close(self) -> None:
        """The end: what was written is safe from a power failure too."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._cannot("write", error) from error
        finally:
            self._file.close()

    def __enter__(self) -> ResultsFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _continue(self, header: Header) -> None:
        data = read_bounded(self._file, MAX_FILE_BYTES)
        whole = data.rfind(b"\n") + 1
        if whole > 0:
            found = parse_results(data[:whole], str(self._path))
            self._check_same(found, header)
            self.done = {run.cell: run for run in found.runs}
        elif not (data.startswith(_BEGINNING) or _BEGINNING.startswith(data)):
            raise DataFileError(
                f"{self._path} is not a file of results; write them to another file"
            )
        if whole < len(data):
            os.truncate(self._file.fileno(), whole)
        if whole == 0:
            self.write(header)

    def _check_same(self, found: FieldResults, header: Header) -> None:
        theirs, ours = asdict(_comparable(found.header)), asdict(_comparable(header))
        different = [name for name, value in ours.items() if value != theirs[name]]
        if different:
            raise DataFileError(
                f"{self._path} has results of another run: it has other {', '.join(different)}; "
                "give the same options again to go on with it, or write to another file"
            )

    def _cannot(self, do: str, error: OSError) -> DataFileError:
        rest = "; make room, and run the same again to go on" * (error.errno == errno.ENOSPC)
        return DataFileError(f"cannot {do} {self._path}: {error.strerror or error}{rest}")


def _comparable(header: Header) -> Header:
    """What must be the same; when it began, and how fast memory was then, need not be."""
    return replace(header, started="", machine=replace(header.machine, memory_gb_per_s=None))
