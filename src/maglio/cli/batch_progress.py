"""How far a batch is, on stderr: a bar on a terminal, now and then a line elsewhere.

Boundary: words and a terminal; counts nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from maglio.cli.streams import note

if TYPE_CHECKING:
    from maglio.server.batch.progress import BatchProgress

_LINE_S = 10.0
"""Seconds from one line to the next."""

Show = Callable[["BatchProgress"], None]


@contextmanager
def shown_progress(*, quiet: bool) -> Iterator[Show]:
    """What to call with how far it is.

    Args:
        quiet: show no bar: results are written to where it might be.
    """
    if not sys.stderr.isatty() or (quiet and sys.stdout.isatty()):
        yield ProgressLines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rest]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, rest="")

        def show(progress: BatchProgress) -> None:
            bar.update(
                task,
                total=progress.requests,
                completed=progress.done,
                rest=" | ".join(_pace(progress)),
            )

        yield show


class ProgressLines:
    """A line each time that some seconds have passed.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._next = clock() + _LINE_S

    def __call__(self, progress: BatchProgress) -> None:
        """Say how far it is, if it is time."""
        if self._clock() >= self._next and progress.left:
            self._next = self._clock() + _LINE_S
            done = f"{progress.done} of {progress.requests} requests"
            note(" | ".join([done, *_pace(progress)]))


def summary(end: BatchProgress) -> str:
    """One line about a batch that is done."""
    parts = [f"{end.requests} requests, {end.failed} failed"]
    if end.earlier:
        parts[0] += f", {end.earlier} done earlier"
    if end.done > end.earlier:
        parts += [
            f"prompts {end.prompt_tokens} tokens, {end.cached_tokens} cached",
            f"generation {end.tokens} tokens, {end.tokens_per_s:.1f} tok/s",
            *_accepted(end),
            _duration(end.seconds),
        ]
    return " | ".join(parts)


def _pace(progress: BatchProgress) -> list[str]:
    parts = [f"{progress.failed} failed"] if progress.failed else []
    parts += [f"{progress.tokens_per_s:.1f} tok/s", *_accepted(progress)]
    left = progress.remaining_s
    return parts if left is None else [*parts, f"{_duration(left)} left"]


def _accepted(progress: BatchProgress) -> list[str]:
    if not progress.drafted:
        return []
    share = 100 * progress.accepted / progress.drafted
    return [f"accepted {progress.accepted}/{progress.drafted} ({share:.0f}%)"]


def _duration(seconds: float) -> str:
    """As 0:07 or 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
