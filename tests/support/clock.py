"""Time that passes only when a forward says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.toy_session import ToySession


class Clock:
    """A simulated clock, in plain steps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def timed_session(clock: Clock, seconds: Callable[[int], float], **session: Any) -> ToySession:
    """A session whose forwards take ``seconds(rows)``."""

    def pass_time(_: int) -> None:
        clock.now += seconds(len(timed.calls[-1][1]))

    timed = ToySession(half_way=pass_time, **session)
    return timed
