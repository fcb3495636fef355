"""Time that passes only when a forward says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.toy_engine import ToyEngine


class Clock:
    """A simulated clock, in plain steps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def timed_engine(clock: Clock, seconds: Callable[[int], float], **engine: Any) -> ToyEngine:
    """An engine whose forwards take ``seconds(rows)``."""

    def pass_time(_: int) -> None:
        clock.now += seconds(sum(len(segment.tokens) for segment in timed.calls[-1]))

    timed = ToyEngine(after_call=pass_time, **engine)
    return timed
