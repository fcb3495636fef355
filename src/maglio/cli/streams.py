"""Standard output and standard error: what happens when they cannot take what we write.

Boundary: streams and exit statuses. A reader that left ends the process in silence, with the status
of a process that died of SIGPIPE; a full disk is an error like others.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from maglio.errors import MaglioError

BROKEN_PIPE = 128 + signal.SIGPIPE


class OutputError(MaglioError):
    """Standard output cannot be written to; the message says why."""


def prepare() -> None:
    """Make the streams able to take any text, and warnings one line each.

    Raises:
        OutputError: standard output is closed.
    """
    if sys.stderr is None:  # print() would fall back to standard output
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # as long as the process lives
    if sys.stdout is None:
        raise OutputError("cannot write to standard output: it is closed")
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None and stream.errors == "strict":
            reconfigure(errors="replace")
    warnings.showwarning = lambda message, *_, **__: note(f"maglio: warning: {message}")


def emit(stream: TextIO, text: str) -> None:
    """Write and show ``text``; what the stream cannot show becomes a replacement character.

    Raises:
        BrokenPipeError: whoever read it has left.
        OutputError: it cannot be written.
    """
    try:
        stream.write(_showable(text, stream))
        stream.flush()
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:  # the latter for a closed file
        reason = getattr(error, "strerror", None) or error
        raise OutputError(f"cannot write to standard output: {reason}") from error


def note(message: str, end: str = "\n") -> None:
    """Say something on standard error, if that is possible."""
    with suppress(OSError, ValueError):
        print(message, end=end, file=sys.stderr, flush=True)


@contextmanager
def finish_output() -> Iterator[None]:
    """Write out all that was printed inside, and turn what goes wrong into an ending.

    Raises:
        SystemExit: whoever read the output has left.
        OutputError: it cannot be written.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _forget(sys.stdout, sys.stderr)
        raise SystemExit(BROKEN_PIPE) from None
    except OutputError:
        _forget(sys.stdout)
        raise
    except OSError as error:
        _forget(sys.stdout)
        doing = "write to standard output" if error.filename is None else f"use {error.filename}"
        raise OutputError(f"cannot {doing}: {error.strerror or error}") from error


def _showable(text: str, stream: TextIO) -> str:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding, getattr(stream, "errors", None) or "strict")
    except UnicodeEncodeError:
        return text.encode(encoding, "replace").decode(encoding)
    return text


def _forget(*streams: TextIO) -> None:
    """Keep Python from trying, and complaining, again at exit."""
    for stream in streams:
        with suppress(OSError, ValueError):
            descriptor = os.open(os.devnull, os.O_WRONLY)
            os.dup2(descriptor, stream.fileno())
            os.close(descriptor)
