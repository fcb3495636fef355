"""Lines for a stream that may be blocked, such as a pipe that nobody reads.

Boundary: a thread, and a bounded number of texts that wait for it; knows no request.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Condition, Thread

from maglio.server import limits

_STDERR = 2


def write_to_stderr(text: str) -> None:
    """Write past the buffer of ``sys.stderr``, whose lock the end of the process would wait for."""
    data = text.encode(errors="backslashreplace")
    while data:
        data = data[os.write(_STDERR, data) :]


class LogWriter:
    """Writes texts in a thread of its own, so that nobody waits for who reads them.

    Texts that come when :data:`~maglio.server.limits.LOG_LINES` wait are dropped. How many were is
    written as soon as something can be.

    Args:
        write: writes a text, and may take as long as it likes. What it raises is ignored: a log
            that cannot be written ends no request.
    """

    def __init__(self, write: Callable[[str], object] = write_to_stderr) -> None:
        self._write = write
        self._changed = Condition()
        self._waiting: deque[str] = deque()
        self._dropped = 0
        self._is_open = True
        self._thread = Thread(target=self._work, name="maglio-log", daemon=True)
        self._thread.start()

    def write(self, text: str) -> None:
        """Write a text when those before it are written. Returns at once."""
        with self._changed:
            if len(self._waiting) >= limits.LOG_LINES:
                self._dropped += 1
                return
            self._waiting.append(text)
            self._changed.notify()

    def close(self, *, within: float) -> None:
        """Write what waits, as far as so many seconds allow, and end the thread."""
        with self._changed:
            self._is_open = False
            self._changed.notify()
        self._thread.join(within)

    def _work(self) -> None:
        while texts := self._taken():
            for text in texts:
                with suppress(OSError, ValueError):
                    self._write(text)

    def _taken(self) -> list[str]:
        """What waits, once something does; nothing when nothing will."""
        with self._changed:
            while not self._waiting and self._is_open:
                self._changed.wait()
            texts = list(self._waiting)
            self._waiting.clear()
            if self._dropped:
                texts.append(f"maglio: {self._dropped} lines of the log were dropped\n")
            self._dropped = 0
            return texts


@contextmanager
def catching(writer: LogWriter) -> Iterator[None]:
    """Give warnings, and what packages log, to a writer: no thread may wait for who reads them."""
    show, handler = warnings.showwarning, _Handler(writer)
    warnings.showwarning = lambda message, *_, **__: writer.write(f"maglio: warning: {message}\n")
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        warnings.showwarning = show


class _Handler(logging.Handler):
    def __init__(self, writer: LogWriter) -> None:
        super().__init__(logging.WARNING)
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        self._writer.write(f"maglio: {self.format(record)}\n")
