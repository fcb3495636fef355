"""Ctrl-C: one KeyboardInterrupt at a time, never in the middle of what it has caused.

Boundary: the handlers of SIGINT, and of SIGTERM for commands that end in an orderly way. Only the
main thread can set them; elsewhere nothing is changed. Nor is it where SIGINT is ignored, as in a
job that a shell script runs in the background.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any


class Interrupts:
    """Ctrl-C raises once each time it is armed; until it is armed again it does nothing.

    A context manager. Whoever arms it handles the KeyboardInterrupt, and what that does, such as
    saving, is not disturbed by another one.
    """

    def __init__(self) -> None:
        self._armed = False
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        if _is_ours():
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is KeyboardInterrupt:
            end_at_next_interrupt()
        elif _is_ours():
            signal.signal(signal.SIGINT, self._before)

    def arm(self) -> None:
        """From now on Ctrl-C raises, once."""
        self._armed = True

    def disarm(self) -> None:
        """From now on Ctrl-C does nothing."""
        self._armed = False

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self._armed:
            self._armed = False
            raise KeyboardInterrupt


def interrupt_once() -> None:
    """Ctrl-C raises; another one ends the process at once, and without a word."""
    if _is_ours():
        signal.signal(signal.SIGINT, _raise_once)


class Terminated(KeyboardInterrupt):
    """SIGTERM has come."""


@contextmanager
def terminate_once() -> Iterator[None]:
    """SIGTERM raises inside; another one ends the process at once, and without a word."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate_once)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def end_at_next_interrupt() -> None:
    """Ctrl-C ends the process at once, and without a word: it is about to end anyway."""
    if _is_ours():
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _raise_once(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise KeyboardInterrupt


def _terminate_once(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise Terminated


def _is_ours() -> bool:
    is_main_thread = threading.current_thread() is threading.main_thread()
    return is_main_thread and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
