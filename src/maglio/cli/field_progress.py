"""How far ``maglio bench field`` is: a bar on a terminal, and a line for each task that is done."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from maglio.bench.field.line import FieldRun
from maglio.bench.field.runner import Field


class FieldProgress:
    """Follows the runs. Leaving ``with`` ends the bar.

    Args:
        field: what is run.
        missing: runs to come.
        notes: where to write.
    """

    def __init__(self, field: Field, missing: int, notes: Console) -> None:
        self._notes = notes
        self._rounds = field.rounds
        self._engines = {entry.name: entry.entrant.engine for entry in field.entries}
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=notes,
            disable=not notes.is_terminal,
        )
        self._task = self._bar.add_task("loading", total=missing)
        self._runs: list[FieldRun] = []

    def show(self, run: FieldRun) -> None:
        """One more run is made."""
        if self._runs and _place(run) != _place(self._runs[-1]):
            self._end_place()
        self._runs.append(run)
        self._bar.update(self._task, advance=1, description=f"{run.task}: {run.contestant}")

    def __enter__(self) -> FieldProgress:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._runs:
            self._end_place()
        self._bar.stop()

    def _end_place(self) -> None:
        run, rates = self._runs[0], self._rates()
        how = "greedy" if run.temperature == 0 else f"T={run.temperature:g}"
        line = f"{run.task}, {how}, round {run.round + 1} of {self._rounds}: "
        ours = {name: rate for name, rate in rates.items() if self._is_ours(name)}
        theirs = {name: rate for name, rate in rates.items() if not self._is_ours(name)}
        best = [max(some.items(), key=lambda pair: pair[1]) for some in (ours, theirs) if some]
        line += ", ".join(f"{name} {rate:.1f} tokens/s" for name, rate in best)
        if failed := sum(run.error is not None for run in self._runs):
            line += f"; {failed} of {len(self._runs)} runs failed"
        self._notes.print(line, soft_wrap=True)
        self._runs = []

    def _rates(self) -> dict[str, float]:
        """Tokens per second of each contestant: all its tokens over all its time."""
        tokens: dict[str, int] = {}
        seconds: dict[str, float] = {}
        for run in self._runs:
            tokens[run.contestant] = tokens.get(run.contestant, 0) + run.decoded
            seconds[run.contestant] = seconds.get(run.contestant, 0.0) + run.decode_s
        return {name: tokens[name] / seconds[name] for name in tokens if seconds[name] > 0}

    def _is_ours(self, name: str) -> bool:
        return self._engines[name].startswith("maglio")


def _place(run: FieldRun) -> tuple[str, float, int]:
    return run.task, run.temperature, run.round
