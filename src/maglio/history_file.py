"""A history on disk: token ids of earlier streams, so that new ones can draft from them.

Boundary: keeps ids, bounded, per model, for one user. What was said can be read from the file, so
it is made only on request, in a folder that only its owner can open.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import platformdirs

from maglio.errors import IndexFileError
from maglio.files import read_regular, write_atomic

MAX_TOKENS = 1 << 18
"""Ids kept, the newest: a file of 1 MB, and about 13 MB of index in memory."""

_MAGIC = b"maglio warm 1\n\0\0"
_DIGEST = 32


def history_folder() -> Path:
    """Where histories are: ``maglio/warm`` in the user's data folder."""
    return platformdirs.user_data_path("maglio") / "warm"


class HistoryFile:
    """Past streams of one model; a :class:`~maglio.draft.past.HistoryStore`.

    Processes that use it at the same time take turns, and a file is replaced in one step, so it is
    whole at any moment.

    Args:
        key: identifies the model and its tokenizer.
        n_vocab: ids at or above are damage.
        separator: the token that is put between streams, if any.
        folder: instead of :func:`history_folder`.
    """

    def __init__(
        self,
        key: str,
        n_vocab: int,
        *,
        separator: int | None = None,
        folder: Path | None = None,
    ) -> None:
        self._folder = history_folder() if folder is None else folder
        self._n_vocab = n_vocab
        self._separator = [] if separator is None else [separator]
        self.path = self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.tokens"

    def tokens(self) -> npt.NDArray[np.int32]:
        """The ids, oldest first; none if there is no file.

        Raises:
            IndexFileError: the file cannot be read, or is damaged.
        """
        try:
            data = read_regular(self.path, len(_MAGIC) + _DIGEST + 4 * MAX_TOKENS)
        except FileNotFoundError:
            return np.empty(0, np.int32)
        except OSError as error:
            raise self._error(error.strerror or str(error)) from error
        body = data[len(_MAGIC) + _DIGEST :]
        head = _MAGIC + hashlib.sha256(body).digest()
        if data[: len(head)] != head or len(body) % 4 or len(body) > 4 * MAX_TOKENS:
            raise self._error("it is damaged")
        ids = np.frombuffer(body, "<i4").astype(np.int32)
        if len(ids) and not 0 <= ids.min() <= ids.max() < self._n_vocab:
            raise self._error("it has ids outside the vocabulary")
        return ids

    def add(self, tokens: npt.NDArray[np.int32]) -> None:
        """Append a stream; the oldest ids make room for it.

        Raises:
            IndexFileError: the file is damaged or cannot be written.
        """
        new = np.asarray([*tokens.tolist(), *self._separator], np.int32)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.chmod(0o700)
            with self._locked():
                ids = np.concatenate([self.tokens(), new])[-MAX_TOKENS:]
                body = ids.astype("<i4").tobytes()
                write_atomic(self.path, _MAGIC + hashlib.sha256(body).digest() + body)
        except OSError as error:
            raise self._error(error.strerror or str(error)) from error

    def clear(self) -> None:
        """Delete the file, if there is one.

        Raises:
            IndexFileError: it cannot be deleted.
        """
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise self._error(error.strerror or str(error)) from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = os.open(self._folder / ".lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _error(self, problem: str) -> IndexFileError:
        return IndexFileError(
            f"cannot use the history {self.path}: {problem}; `maglio chat --clear-history` or "
            "deleting the file makes room for a new one"
        )
