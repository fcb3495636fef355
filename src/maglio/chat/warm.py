"""A warm index: token ids of past answers on disk, so that a new chat can draft from old ones.

Boundary: keeps ids, bounded, per model, for one user. What is said in a chat can be read from the
file, so it is made only on request, in a folder that only its owner can open.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import platformdirs

from maglio.errors import IndexFileError
from maglio.files import write_atomic

MAX_TOKENS = 1 << 18
"""Ids kept, the newest: a file of 1 MB, and about 13 MB of index in memory."""

_MAGIC = b"maglio warm 1\n\0\0"
_DIGEST = 32


def warm_folder() -> Path:
    """Where warm indexes are: ``maglio/warm`` in the user's data folder."""
    return platformdirs.user_data_path("maglio") / "warm"


class WarmIndex:
    """Past answers of one model.

    Processes that use it at the same time take turns, and a file is replaced in one step, so it is
    whole at any moment.

    Args:
        key: identifies the model and its tokenizer.
        n_vocab: ids at or above are damage.
        folder: instead of :func:`warm_folder`.
    """

    def __init__(self, key: str, n_vocab: int, *, folder: Path | None = None) -> None:
        self._folder = warm_folder() if folder is None else folder
        self._n_vocab = n_vocab
        self.path = self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.tokens"

    def tokens(self) -> npt.NDArray[np.int32]:
        """The ids, oldest first; none if there is no file.

        Raises:
            IndexFileError: the file cannot be read, or is damaged.
        """
        try:
            data = self.path.read_bytes()
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

    def add(self, answer: Sequence[int], separator: int | None) -> None:
        """Append an answer; the oldest ids make room for it.

        Raises:
            IndexFileError: the file is damaged or cannot be written.
        """
        new = np.asarray([*answer, *([] if separator is None else [separator])], np.int32)
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
        """Delete the file."""
        self.path.unlink(missing_ok=True)

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
            f"cannot use the warm index {self.path}: {problem}; `maglio chat --clear-warm` or "
            "deleting the file makes room for a new one"
        )
