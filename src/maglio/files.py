"""Reading and writing files of the user: whole at any moment, never something without an end.

Boundary: bytes and paths. What is wrong ends in an :class:`OSError` whose ``strerror`` says it in
words; callers know what the file was for, and say so in an error of their own.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO

_PREFIX = ".maglio-tmp-"
_ABANDONED_AFTER_S = 3600.0
_STREAM = re.compile(r"/dev/(stdout|stderr|fd/(\d+))|/proc/self/fd/(\d+)")
_NAMED_STREAMS = {"stdout": 1, "stderr": 2}
_KINDS = (
    (stat.S_ISDIR, errno.EISDIR, "it is a folder"),
    (stat.S_ISFIFO, errno.EINVAL, "it is a named pipe, not a regular file"),
    (stat.S_ISSOCK, errno.EINVAL, "it is a socket, not a regular file"),
    (stat.S_ISCHR, errno.EINVAL, "it is a device, not a regular file"),
    (stat.S_ISBLK, errno.EINVAL, "it is a device, not a regular file"),
)


def write_atomic(path: Path, data: bytes) -> None:
    """Replace the contents of ``path`` as :func:`replacing` does. Raises :class:`OSError`."""
    with replacing(path) as file:
        file.write(data)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open ``path`` for new contents; whoever reads it, even after a crash, sees old or new.

    A new file is readable by its owner only; an old one keeps its mode and its owner. A symbolic
    link stays, and the file that it leads to is replaced. ``/dev/stdout``, ``/dev/fd/3`` and the
    like are written to as they are, and so is ``/dev/null``. When the body raises, nothing has
    changed.

    Raises:
        OSError: it cannot be written, is not a regular file, is read-only, or belongs to a user
            whom it would be taken from.
    """
    descriptor = _stream(path)
    if descriptor is not None:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        return
    target = _resolved(path)
    old = _regular(target)
    _remove_abandoned(target.parent)
    temporary, name = tempfile.mkstemp(prefix=_PREFIX, dir=target.parent)  # mode 0600
    try:
        with os.fdopen(temporary, "wb") as file:
            if old is not None:
                _make_alike(temporary, old)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise
    _sync_folder(target.parent)


def read_regular(path: Path, limit: int) -> bytes:
    """Read a file of at most ``limit`` bytes; one that is not regular may have no end.

    Raises:
        OSError: it cannot be read, is not a regular file, or is larger.
    """
    with open_regular(path) as file:
        return read_bounded(file, limit)


def open_regular(path: Path) -> io.BufferedReader:
    """Open a file to read.

    Raises:
        OSError: it cannot be read, or is not a regular file.
    """
    _checked_name(path)
    _check_kind(os.stat(path))
    # A pipe that took its place since then must not make us wait for a writer.
    file = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")  # noqa: SIM115
    try:
        _check_kind(os.fstat(file.fileno()))
    except OSError:
        file.close()
        raise
    return file


def open_to_append(path: Path) -> io.FileIO:
    """Open a file to read, and to write to its end; nobody else can while it is open.

    A new file is readable by its owner only. Reading begins at the beginning.

    Raises:
        BlockingIOError: another process has opened it so.
        OSError: it cannot be read or written, or is not a regular file.
    """
    target = _resolved(path)
    is_new = _regular(target) is None
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
    file = open(os.open(target, flags, 0o600), "r+b", buffering=0)  # noqa: SIM115
    try:
        _check_kind(os.fstat(file.fileno()))
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if is_new:
            _sync_folder(target.parent)
    except OSError:
        file.close()
        raise
    return file


def read_bounded(file: IO[bytes], limit: int) -> bytes:
    """Read an open file or a pipe to its end.

    Raises:
        OSError: it cannot be read, or there are more than ``limit`` bytes.
    """
    data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit:,} bytes")
    return data


def _checked_name(path: Path) -> None:
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "a path cannot contain a NUL character")


def _check_kind(status: os.stat_result) -> None:
    for is_kind, code, what in _KINDS:
        if is_kind(status.st_mode):
            raise OSError(code, what)


def _stream(path: Path) -> int | None:
    """A descriptor to write straight into, where ``path`` names one."""
    named = _STREAM.fullmatch(str(path))
    if named is not None:
        return os.dup(_NAMED_STREAMS.get(named[1]) or int(named[2] or named[3]))
    return os.open(path, os.O_WRONLY) if str(path) == os.devnull else None


def _resolved(path: Path) -> Path:
    _checked_name(path)
    return Path(os.path.realpath(path))


def _regular(target: Path) -> os.stat_result | None:
    """What is there now, if anything."""
    try:
        status = os.stat(target)
    except FileNotFoundError:
        return None
    _check_kind(status)
    if not os.access(target, os.W_OK):
        raise OSError(errno.EACCES, "it is read-only")
    return status


def _sync_folder(folder: Path) -> None:
    """Keep the names in a folder, even after a crash."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make_alike(descriptor: int, old: os.stat_result) -> None:
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except PermissionError as error:
            raise OSError(
                errno.EPERM, "it belongs to another user or group and would change hands"
            ) from error
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


@cache
def _remove_abandoned(folder: Path) -> None:
    """Once per folder: what writes left behind that were killed long ago."""
    oldest = time.time() - _ABANDONED_AFTER_S
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                with suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_mtime < oldest:
                        os.unlink(entry.path)
