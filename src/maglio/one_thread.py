"""What serves one thread at a time, and says so where two use it at once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import wraps
from threading import RLock
from typing import Concatenate, ParamSpec, Protocol, TypeVar, cast

from maglio.errors import MaglioError

T = TypeVar("T")
P = ParamSpec("P")

_BUSY = "generator already executing"  # Python's words


class OneThread:
    """Held while something is used. Who comes meanwhile is told, and does not wait.

    Args:
        what: what to call it.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = RLock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise MaglioError(
                f"{self._what} is in use by another thread; wait until that is done with it, or "
                "use another one in each thread"
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class _Used(Protocol):
    _use: OneThread


S = TypeVar("S", bound=_Used)


def one_thread(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[S, P], T]:
    """Make a method hold ``self._use``."""

    @wraps(method)
    def holding(self: S, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._use:
            return method(self, *args, **kwargs)

    return cast("Callable[Concatenate[S, P], T]", holding)


class Steps(Iterator[T]):
    """A generator that says in our words when it is asked while it works.

    Another thread can ask so, and so can what it calls, such as a display of its progress.

    Args:
        what: what to call it.
        steps: the generator.
    """

    def __init__(self, what: str, steps: Iterator[T]) -> None:
        self._what = what
        self._steps = steps

    def __next__(self) -> T:
        try:
            return next(self._steps)
        except ValueError as error:
            raise self._said(error) from None

    def close(self) -> None:
        """End it here, if it can be ended."""
        if not isinstance(self._steps, Generator):
            return
        try:
            self._steps.close()
        except ValueError as error:
            raise self._said(error) from None

    def _said(self, error: ValueError) -> Exception:
        if error.args != (_BUSY,):
            return error
        return MaglioError(
            f"{self._what} is at work, in another thread or in what called this; it can be used "
            "again when that is done"
        )


__all__ = ["OneThread", "Steps", "one_thread"]
