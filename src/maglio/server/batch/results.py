"""The results of a batch: a line each, appended as they come.

Boundary: bytes and files. A file of results is never without what was written to it: it is read
when the batch goes on, and a last line that was not written to its end is removed. What cannot be
told from somebody's other file is left alone.
"""

from __future__ import annotations

import errno
import io
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO, Protocol

from maglio.errors import BatchFileError
from maglio.files import open_to_append, replacing
from maglio.server.batch.requests import ID

SYNC_S = 1.0
"""After so many seconds at most, what was written is safe from a power failure too."""
_BEGINNING = f'{{"id":"{ID}'.encode()
_MAX_LINE = 1 << 30


class Results(Protocol):
    """Where results go.

    Attributes:
        done: the custom ids of those that are there.
        failed: how many of them are errors.
        fingerprint: of the model that gave the first of them, if it says.
    """

    done: set[str]
    failed: int
    fingerprint: str | None

    def write(self, custom_id: str, line: bytes, *, failed: bool) -> None:
        """Append a line. Raises :class:`BatchFileError` if that is not possible."""

    def sync(self) -> None:
        """Make what was written safe from a power failure, if it is time."""

    def close(self) -> None:
        """The end."""


class ResultFile:
    """Results in a file. What is there belongs to the same batch, and is kept.

    Args:
        path: the file; made if it does not exist.
        ids: the ids of the batch's requests, by custom ids.
        requests: what the requests are called in messages.
        retry_failed: remove results that are errors.

    Raises:
        BatchFileError: it cannot be used, another process uses it, or what is in it is something
            else. It is unchanged then.
    """

    def __init__(
        self, path: Path, ids: Mapping[str, str], requests: str, *, retry_failed: bool = False
    ) -> None:
        self.done: set[str] = set()
        self.failed = 0
        self.fingerprint: str | None = None
        self._path = path
        self._ids = ids
        self._requests = requests
        self._unsynced_since: float | None = None
        self._file = self._opened()
        try:
            self._read()
            if retry_failed and self.failed:
                self._remove_failed()
        except BaseException as error:
            self._file.close()
            if isinstance(error, OSError):
                raise self._cannot("use", error) from error
            raise

    def write(self, custom_id: str, line: bytes, *, failed: bool) -> None:
        """Append a line. Raises :class:`BatchFileError` if that is not possible."""
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[os.write(self._file.fileno(), rest) :]
        except OSError as error:
            raise self._cannot("write", error) from error
        self.done.add(custom_id)
        self.failed += failed
        if self._unsynced_since is None:
            self._unsynced_since = monotonic()

    def sync(self) -> None:
        """Make what was written safe from a power failure, if it is time."""
        since = self._unsynced_since
        if since is not None and monotonic() - since >= SYNC_S:
            self._sync()

    def close(self) -> None:
        """The end."""
        try:
            if self._unsynced_since is not None:
                self._sync()
        finally:
            self._file.close()

    # --- inside ----------------------------------------------------------------------------------

    def _sync(self) -> None:
        self._unsynced_since = None  # before: another thread may write meanwhile
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._cannot("write", error) from error

    def _opened(self) -> io.FileIO:
        try:
            return open_to_append(self._path)
        except BlockingIOError as error:
            raise BatchFileError(f"{self._path} is being written by another process") from error
        except OSError as error:
            raise self._cannot("use", error) from error

    def _read(self) -> None:
        """Read what is there, and remove a last line that is not whole."""
        size = 0
        for number, line in enumerate(self._lines(), 1):
            if line.endswith(b"\n"):
                self._take(number, line)
                size += len(line)
            elif not _may_be_torn(line):
                raise self._other(number, "it is not a result")
        self._file.truncate(size)

    def _remove_failed(self) -> None:
        with replacing(self._path) as file:
            for line in self._lines():
                if succeeded(json.loads(line)["response"]):
                    file.write(line)
        self._file.close()  # what it was is no longer there
        self._file = self._opened()
        self.done.clear()
        self.failed = 0
        self._read()

    def _lines(self) -> Iterator[bytes]:
        self._file.seek(0)
        reader = io.BufferedReader(self._file)
        try:
            while line := reader.readline(_MAX_LINE):
                yield line
        finally:
            reader.detach()

    def _take(self, number: int, line: bytes) -> None:
        try:
            result = json.loads(line)
            custom_id, name = result["custom_id"], result["id"]
            response = result["response"]
        except (ValueError, RecursionError, TypeError, KeyError):
            raise self._other(number, "it is not a result") from None
        if not isinstance(custom_id, str) or custom_id not in self._ids:
            raise self._other(
                number, f"it is of a request {custom_id!r:.80}, which is not in {self._requests}"
            )
        if name != self._ids[custom_id]:
            raise self._other(
                number, f"the request {custom_id!r:.80} in {self._requests} has changed since"
            )
        if custom_id in self.done:
            raise self._other(number, f"it is the second of the request {custom_id!r:.80}")
        self.done.add(custom_id)
        self.failed += not succeeded(response)
        if self.fingerprint is None and succeeded(response):
            self.fingerprint = _fingerprint(response)

    def _other(self, number: int, why: str) -> BatchFileError:
        return BatchFileError(
            f"{self._path}, line {number}: {why}; write the results to another file, or remove "
            "this one. Nothing was run"
        )

    def _cannot(self, do: str, error: OSError) -> BatchFileError:
        rest = "; make room, and run the same again to go on" * (error.errno == errno.ENOSPC)
        return BatchFileError(f"cannot {do} {self._path}: {error.strerror or error}{rest}")


class ResultStream:
    """Results to a stream, such as standard output: a batch that cannot go on later.

    Args:
        stream: takes them.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.done: set[str] = set()
        self.failed = 0
        self.fingerprint: str | None = None
        self._stream = stream

    def write(self, custom_id: str, line: bytes, *, failed: bool) -> None:
        """Append a line. Raises what the stream raises."""
        self._stream.write(line)
        self._stream.flush()
        self.done.add(custom_id)
        self.failed += failed

    def sync(self) -> None:
        """Nothing: the stream is somebody else's."""

    def close(self) -> None:
        """Nothing: the stream is somebody else's."""


def succeeded(response: object) -> bool:
    """Whether a response is an answer, and no error."""
    return isinstance(response, dict) and response.get("status_code") == 200


def _may_be_torn(line: bytes) -> bool:
    """Whether a line without an end is the beginning of a result.

    After a power failure there may be zeros where something was not written.
    """
    written = line.rstrip(b"\0")
    return written.startswith(_BEGINNING) or _BEGINNING.startswith(written)


def _fingerprint(response: Any) -> str | None:  # noqa: ANN401  # whatever JSON holds
    body = response.get("body")
    found = body.get("system_fingerprint") if isinstance(body, dict) else None
    return found if isinstance(found, str) else None
