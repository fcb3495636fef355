"""Ctrl-C at a chosen line: what a user's interrupt can do at the worst moment."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupt_at(line: int, *paths: str) -> Iterator[None]:
    """Raise KeyboardInterrupt at the ``line``-th line run of the files whose names begin so."""
    left = line

    def trace(frame, event, arg):
        nonlocal left
        if not frame.f_code.co_filename.startswith(paths):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(previous)
