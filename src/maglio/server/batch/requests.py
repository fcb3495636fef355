"""The requests of a batch: JSON lines, of which one is in memory at a time.

Boundary: from the bytes of a file to checked lines. What is in a body is not looked at. A line over
the limit is read as far as its names go, so that it can be answered with an error.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pydantic_core import from_json

from maglio.errors import BatchFileError
from maglio.files import open_regular
from maglio.server import limits
from maglio.server.errors import ApiError
from maglio.server.schema.batch import BatchLine
from maglio.server.schema.wire import read

ID = "batch_req_"
"""What the ids of results begin with."""

URLS = ("/v1/chat/completions", "/v1/completions", "/v1/responses")
LINE_BYTES = limits.BODY_BYTES + (64 << 10)
"""Longest line that is read whole: the longest body, and what is around it."""
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A line of a batch.

    Attributes:
        number: of the line, from 1.
        offset: where it begins in the file.
        id: a name made from its bytes: another line has another id.
        custom_id: its name.
        url: which endpoint is asked.
        body: what it is asked; ``None`` if the line is over the limit.
        size: bytes of the line.
    """

    number: int
    offset: int
    id: str
    custom_id: str
    url: str
    body: Any
    size: int


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    offset: int
    head: bytes
    size: int
    digest: str


class RequestFile:
    """The requests of a batch.

    Args:
        source: their file; or a binary stream, which is copied to a temporary file first.

    Raises:
        BatchFileError: it cannot be read.
    """

    def __init__(self, source: Path | BinaryIO) -> None:
        self.name = str(source) if isinstance(source, Path) else "the input"
        try:
            self._file = open_regular(source) if isinstance(source, Path) else _copied(source)
        except OSError as error:
            raise self._error(error) from error

    def check(self) -> dict[str, str]:
        """Check every line; the ids by custom ids.

        Raises:
            BatchFileError: a line is not a request, or two have the same custom id.
        """
        ids: dict[str, str] = {}
        first, n_more = None, -1
        for line in self._lines(0):
            fault = self._taken(line, ids)
            if fault is not None:
                first, n_more = first or fault, n_more + 1
        if first is None:
            return ids
        more = f"{n_more} more line{'s' if n_more > 1 else ''} cannot be used"
        raise BatchFileError(f"{first}{f'; {more}' if n_more else ''}. Nothing was run")

    def __iter__(self) -> Iterator[BatchRequest]:
        """All requests, in order. Raises :class:`BatchFileError` as :meth:`check`."""
        return map(self._read, self._lines(0))

    def again(self, request: BatchRequest) -> BatchRequest:
        """A request that was read before, with its body. Ends what iterates."""
        return self._read(next(self._lines(request.offset, request.number)))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    # --- inside ----------------------------------------------------------------------------------

    def _lines(self, offset: int, number: int = 1) -> Iterator[_Line]:
        """The lines from an offset on that are not blank."""
        try:
            self._file.seek(offset)
            while data := self._file.readline(LINE_BYTES + 1):
                size, digest = len(data), hashlib.blake2b(data.rstrip(), digest_size=12)
                head = data
                while len(data) > LINE_BYTES and not data.endswith(b"\n"):
                    data = self._file.readline(LINE_BYTES + 1)
                    size += len(data)
                    digest.update(data.rstrip())
                if number == 1:
                    head = head.removeprefix(_BOM)
                if head.strip():
                    yield _Line(number, offset, head, size, digest.hexdigest())
                offset, number = offset + size, number + 1
        except OSError as error:
            raise self._error(error) from error

    def _taken(self, line: _Line, ids: dict[str, str]) -> BatchFileError | None:
        """Take a line's id; or what is wrong with it."""
        try:
            request = self._read(line)
        except BatchFileError as error:
            return error
        if request.custom_id in ids:
            return self._fault(
                line, f"custom_id {request.custom_id!r:.80} is an earlier line's too"
            )
        ids[request.custom_id] = request.id
        return None

    def _read(self, line: _Line) -> BatchRequest:
        is_whole = line.size <= LINE_BYTES
        try:
            document = from_json(line.head, allow_partial=not is_whole, allow_inf_nan=False)
        except ValueError as error:
            what = str(error).replace(" at line 1 column ", " at column ")
            raise self._fault(line, f"it is not valid JSON: {what:.200}") from None
        if not is_whole:
            document = _names(document)
        try:
            found = read(BatchLine, document)
        except ApiError as error:
            raise self._fault(line, error.message.rstrip(".")) from None
        if found.url not in URLS:
            raise self._fault(
                line, f"url is {found.url!r:.80}, must be {', '.join(URLS[:-1])} or {URLS[-1]}"
            )
        return BatchRequest(
            line.number,
            line.offset,
            ID + line.digest,
            found.custom_id,
            found.url,
            found.body if is_whole else None,
            line.size,
        )

    def _fault(self, line: _Line, what: str) -> BatchFileError:
        return BatchFileError(f"{self.name}, line {line.number}: {what}")

    def _error(self, error: OSError) -> BatchFileError:
        return BatchFileError(f"cannot read {self.name}: {error.strerror or error}")


def _names(document: object) -> object:
    """What is known of a line that was read in part; its url may come after its body."""
    if not isinstance(document, Mapping):
        return document
    known = {name: document[name] for name in ("custom_id", "method", "url") if name in document}
    return {"method": "POST", "url": URLS[0]} | known | {"body": {}}


def _copied(stream: BinaryIO) -> BinaryIO:
    file = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the batch
    try:
        shutil.copyfileobj(stream, file)
    except BaseException:
        file.close()
        raise
    return file
