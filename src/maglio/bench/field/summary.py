"""The runs of a field benchmark, put together: one cell per task, temperature and contestant.

Boundary: numbers. How they are written is for :mod:`~maglio.bench.field.markdown` and
:mod:`~maglio.bench.field.html`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from maglio.bench.field.line import Contestant, FieldRun, GrowthPoint, Header
from maglio.bench.field.ratio import LEAST_S, Ratio, by_round, compare
from maglio.bench.field.results import FieldResults

Place = tuple[str, float]
"""A task and a temperature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What one contestant did in one task at one temperature.

    Attributes:
        task: name of the task.
        temperature: 0 is greedy.
        contestant: name of the contestant.
        runs: how many there were,
        failed: and how many of them ended in an error.
        tokens: generated after the first ones by the runs that did not fail,
        decode_s: and the seconds that these took.
        steps: forwards of the runs that say so,
        step_tokens: and the tokens that these runs gave.
        drafted: draft tokens of the runs that say so,
        accepted: and how many of them were accepted.
        equal: outputs equal to the plain decoding of the same engine,
        compared: of so many that were compared.
        first_token_s: seconds to the first token, the median; ``None`` if all failed.
        own: ratio to the plain decoding of the same engine; ``None`` for that itself.
        peer: ratio to the best peer in this task and temperature; ``None`` for peers.
    """

    task: str
    temperature: float
    contestant: str
    runs: int
    failed: int
    tokens: int
    decode_s: float
    steps: int
    step_tokens: int
    drafted: int
    accepted: int
    equal: int
    compared: int
    first_token_s: float | None
    own: Ratio | None = None
    peer: Ratio | None = None

    @property
    def tokens_per_s(self) -> float | None:
        """``tokens`` over ``decode_s``; ``None`` without either."""
        return self.tokens / self.decode_s if self.tokens and self.decode_s >= LEAST_S else None

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted draft tokens over all; ``None`` where none was drafted or nobody says."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def acceptance_length(self) -> float | None:
        """Tokens per forward of decoding; ``None`` where nobody says."""
        return self.step_tokens / self.steps if self.steps else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Runs that ended in the same error.

    Attributes:
        task, temperature, contestant: which cell.
        count: how many.
        error: what was said.
    """

    task: str
    temperature: float
    contestant: str
    count: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A field benchmark, put together.

    Attributes:
        header: the model, the machine, the contestants and the tasks.
        cells: by task, temperature and contestant, in the order of the header.
        memory: peak bytes of a contestant's process, by its name.
        failures: what went wrong.
        growth: points of growth curves.
    """

    header: Header
    cells: tuple[Cell, ...]
    memory: dict[str, int]
    failures: tuple[Failure, ...]
    growth: tuple[GrowthPoint, ...]

    @property
    def temperatures(self) -> tuple[float, ...]:
        """Those that occur, ascending."""
        return tuple(sorted({cell.temperature for cell in self.cells}))

    def at(self, place: Place) -> list[Cell]:
        """The cells of a task and temperature."""
        return [cell for cell in self.cells if (cell.task, cell.temperature) == place]

    def contestant(self, name: str) -> Contestant:
        """The contestant of this name. Cells name no others."""
        return next(entry for entry in self.header.contestants if entry.name == name)

    @property
    def lead(self) -> str | None:
        """The contestant that reports are about: the first of Maglio's that drafts and ran."""
        names = (
            c.name
            for c in self.header.contestants
            if is_ours(c) and not c.is_plain and c.absent is None
        )
        return next(names, None)

    def best_peer(self, place: Place) -> Cell | None:
        """The fastest contestant that is not Maglio; ``None`` if none has decoded anything."""
        return _fastest(
            cell for cell in self.at(place) if not is_ours(self.contestant(cell.contestant))
        )


def is_ours(contestant: Contestant) -> bool:
    """Whether Maglio decodes there, on whatever engine."""
    return contestant.engine.split(" ")[0] == "maglio"


def summarise(results: FieldResults) -> Summary:
    """Put the runs of a benchmark together."""
    header = results.header
    runs: dict[Place, dict[str, list[FieldRun]]] = {}
    for run in results.runs:
        runs.setdefault((run.task, run.temperature), {}).setdefault(run.contestant, []).append(run)
    order = [task.name for task in header.tasks]
    places = sorted(runs, key=lambda place: (order.index(place[0]), place[1]))
    return Summary(
        header=header,
        cells=tuple(cell for place in places for cell in _cells(header, place, runs[place])),
        memory=dict(results.memory),
        failures=_failures(results.runs),
        growth=results.growth,
    )


def _cells(header: Header, place: Place, runs: dict[str, list[FieldRun]]) -> list[Cell]:
    """All cells of a place, in the order of the contestants."""
    present = [entry for entry in header.contestants if entry.name in runs]
    timed = {name: by_round(some) for name, some in runs.items()}
    plain = {entry.engine: timed[entry.name] for entry in present if entry.is_plain}
    bare = [(entry, _cell(place, entry.name, runs[entry.name])) for entry in present]
    best = _fastest(cell for entry, cell in bare if not is_ours(entry))
    cells = []
    for entry, cell in bare:
        own, peer = None, None
        if not entry.is_plain and entry.engine in plain:
            own = compare(timed[entry.name], plain[entry.engine])
        if best is not None and is_ours(entry):
            peer = compare(timed[entry.name], timed[best.contestant])
        cells.append(replace(cell, own=own, peer=peer))
    return cells


def _cell(place: Place, name: str, runs: Sequence[FieldRun]) -> Cell:
    good = [run for run in runs if run.error is None]
    stepped = [run for run in good if run.steps is not None]
    drafting = [run for run in good if run.drafted is not None and run.accepted is not None]
    compared = [run for run in good if run.equal is not None]
    return Cell(
        task=place[0],
        temperature=place[1],
        contestant=name,
        runs=len(runs),
        failed=len(runs) - len(good),
        tokens=sum(run.decoded for run in good),
        decode_s=sum(run.decode_s for run in good),
        steps=sum(run.steps or 0 for run in stepped),
        step_tokens=sum(run.decoded for run in stepped),
        drafted=sum(run.drafted or 0 for run in drafting),
        accepted=sum(run.accepted or 0 for run in drafting),
        equal=sum(bool(run.equal) for run in compared),
        compared=len(compared),
        first_token_s=median(run.first_token_s for run in good) if good else None,
    )


def _fastest(cells: Iterable[Cell]) -> Cell | None:
    """Of those with the fewest failures: who fails the slow prompts is fast on the others."""
    decoded = [cell for cell in cells if cell.tokens_per_s is not None]
    fewest = min((cell.failed for cell in decoded), default=0)
    return max(
        (cell for cell in decoded if cell.failed == fewest),
        key=lambda cell: cell.tokens_per_s or 0.0,
        default=None,
    )


def _failures(runs: Iterable[FieldRun]) -> tuple[Failure, ...]:
    counts: dict[tuple[str, float, str, str], int] = {}
    for run in runs:
        if run.error is not None:
            key = (run.task, run.temperature, run.contestant, run.error)
            counts[key] = counts.get(key, 0) + 1
    return tuple(
        Failure(task=task, temperature=temperature, contestant=name, count=count, error=error)
        for (task, temperature, name, error), count in counts.items()
    )
