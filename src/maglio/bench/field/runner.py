"""The runs: every contestant answers every prompt, side by side.

For each round, task and temperature, the contestants take turns prompt by prompt, so that whatever
else the machine does meets all of them. All have their models in memory meanwhile; where there is
not enough of it, they come in heats.

Boundary: an order, processes and results. What contestants do is theirs.
"""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from tempfile import TemporaryDirectory

import numpy as np

from maglio.bench.field.contestants import Entry
from maglio.bench.field.line import FieldRun, PeakMemory
from maglio.bench.field.process import ContestantError, ContestantProcess
from maglio.bench.field.prompts import FieldPrompt, TaskPrompts
from maglio.bench.field.results_file import ResultsFile
from maglio.bench.field.worker.message import Answer, Request, Setup
from maglio.machine import available_memory

_BASE_BYTES = 1 << 29
"""What a contestant needs besides its weights, about."""

_WARM_UP_PROMPT = 16
_WARM_UP_TOKENS = 4
_REST_S = 0.05
"""Before a run: threads of the one before it may still be waiting for work, and spin."""

_DIGITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Who answers what, and how.

    Attributes:
        model: path of the model file.
        entries: the contestants that are here, each engine's plain decoding before its methods.
        tasks: their prompts.
        temperatures: 0 is greedy.
        rounds: how often each answers each prompt at each temperature.
        max_tokens: most tokens of an answer.
        n_ctx: context in tokens.
        threads: of each contestant.
        ends: ids that end an answer.
        limit_s: seconds that an answer may take,
        opening_s: and loading a model.
    """

    model: str
    entries: Sequence[Entry]
    tasks: Sequence[TaskPrompts]
    temperatures: Sequence[float]
    rounds: int
    max_tokens: int
    n_ctx: int
    threads: int
    ends: Sequence[int]
    limit_s: float
    opening_s: float = 900.0

    @property
    def cells(self) -> int:
        """Number of runs in all."""
        prompts = sum(len(task.prompts) for task in self.tasks)
        return prompts * len(self.entries) * len(self.temperatures) * self.rounds


@dataclass(frozen=True, slots=True)
class _Block:
    round: int
    task: TaskPrompts
    temperature: float


class FieldRunner:
    """Makes the runs that a file lacks. No process outlives them.

    Args:
        field: who answers what.
        file: where results go.
        model_bytes: size of the model file.
    """

    def __init__(self, field: Field, file: ResultsFile, *, model_bytes: int) -> None:
        self._field = field
        self._file = file
        self._heats = heats(field.entries, model_bytes, available_memory())
        self._running: dict[str, ContestantProcess] = {}
        self._peaks: dict[str, int] = {}
        self._broken: dict[str, str] = {}
        self._checkpoint: TemporaryDirectory[str] | None = None

    def missing(self) -> int:
        """How many runs the file lacks."""
        return sum(
            self._empty(block, prompt, entry).cell not in self._file.done
            for block in self._blocks()
            for prompt in block.task.prompts
            for entry in self._field.entries
        )

    def runs(self) -> Generator[FieldRun, None, None]:
        """Make and write the runs that are missing, one after another."""
        try:
            for block in self._blocks():
                yield from self._run_block(block)
        finally:
            try:
                self._close(self._field.entries)
            finally:
                if self._checkpoint is not None:
                    self._checkpoint.cleanup()

    def _blocks(self) -> Iterator[_Block]:
        for number in range(self._field.rounds):
            for task in self._field.tasks:
                for temperature in self._field.temperatures:
                    yield _Block(number, task, temperature)

    def _run_block(self, block: _Block) -> Iterator[FieldRun]:
        self._close([entry for entry in self._field.entries if entry.entrant.remembers])
        for heat in self._heats:
            for number, prompt in enumerate(block.task.prompts):
                for entry in in_turn(heat, block.round + number):
                    empty = self._empty(block, prompt, entry)
                    if empty.cell not in self._file.done:
                        yield self._run(entry, prompt, empty)
            if len(self._heats) > 1:
                self._close(heat)

    def _run(self, entry: Entry, prompt: FieldPrompt, empty: FieldRun) -> FieldRun:
        try:
            answer = self._ask(entry, self._request(prompt, empty.round, empty.temperature))
            run = self._filled(entry, empty, answer)
        except ContestantError as error:
            if error.ended:
                self._close([entry])
            run = dataclasses.replace(empty, error=str(error))
        self._file.write(run)
        return run

    def _ask(self, entry: Entry, request: Request) -> Answer:
        if entry.name in self._broken:
            raise ContestantError(self._broken[entry.name], ended=False)
        if entry.name not in self._running:
            self._open(entry, request)
        time.sleep(_REST_S)
        return self._running[entry.name].ask(request, limit_s=self._field.limit_s)

    def _open(self, entry: Entry, first: Request) -> None:
        setup = Setup(
            model=self._field.model,
            n_ctx=self._field.n_ctx,
            threads=self._field.threads,
            method=entry.entrant.method,
            settings=entry.entrant.settings,
        )
        limit_s = self._field.opening_s
        warm_up = dataclasses.replace(
            first, prompt=first.prompt[:_WARM_UP_PROMPT], max_tokens=_WARM_UP_TOKENS, schema=None
        )
        try:
            if entry.entrant.converts:
                setup = dataclasses.replace(setup, checkpoint=self._converted(entry, setup))
            process = ContestantProcess(entry.python, entry.entrant.module, setup, limit_s=limit_s)
            self._running[entry.name] = process
            process.ask(warm_up, limit_s=self._field.limit_s)
        except ContestantError as error:
            if not error.ended:
                return  # the warm-up was nothing for it
            # It would not open the next time either, and may take long to find out.
            self._broken[entry.name] = f"could not be opened: {error}"
            raise ContestantError(self._broken[entry.name], ended=True) from error

    def _converted(self, entry: Entry, setup: Setup) -> str:
        """The folder of the model's checkpoint, which is written once."""
        if self._checkpoint is None:
            folder = TemporaryDirectory(prefix="maglio-field-")
            setup = dataclasses.replace(setup, checkpoint=folder.name)
            try:
                limit_s = self._field.opening_s
                ContestantProcess(entry.python, ".conversion", setup, limit_s=limit_s).close()
            except BaseException:
                folder.cleanup()
                raise
            self._checkpoint = folder
        return self._checkpoint.name

    def _close(self, entries: Sequence[Entry]) -> None:
        """End the processes of contestants, and note what memory they took."""
        closed = {
            entry.name: self._running.pop(entry.name)
            for entry in entries
            if entry.name in self._running
        }
        for process in closed.values():
            process.close()
        for name, process in closed.items():
            if process.peak_bytes > self._peaks.get(name, 0):
                self._peaks[name] = process.peak_bytes
                self._file.write(PeakMemory(name, process.peak_bytes))

    def _request(self, prompt: FieldPrompt, number: int, temperature: float) -> Request:
        return Request(
            prompt=prompt.ids,
            max_tokens=self._field.max_tokens,
            temperature=temperature,
            seed=number,
            ends=self._field.ends,
            prediction=prompt.item.prediction,
            references=prompt.item.references,
            schema=prompt.item.schema,
        )

    def _empty(self, block: _Block, prompt: FieldPrompt, entry: Entry) -> FieldRun:
        """A run that has not been made."""
        return FieldRun(
            task=block.task.task.name,
            prompt=prompt.name,
            round=block.round,
            contestant=entry.name,
            temperature=block.temperature,
            tokens=0,
            decode_s=0.0,
            first_token_s=0.0,
            steps=None,
            drafted=None,
            accepted=None,
            equal=None,
            digest="",
            error=None,
        )

    def _filled(self, entry: Entry, empty: FieldRun, answer: Answer) -> FieldRun:
        digest = digest_of(answer.tokens)
        plain = self._plain(entry, empty)
        return dataclasses.replace(
            empty,
            tokens=len(answer.tokens),
            decode_s=answer.decode_s,
            first_token_s=answer.first_token_s,
            steps=answer.steps,
            drafted=answer.drafted,
            accepted=answer.accepted,
            equal=None if plain is None or plain.error is not None else plain.digest == digest,
            digest=digest,
        )

    def _plain(self, entry: Entry, empty: FieldRun) -> FieldRun | None:
        """The same engine's plain decoding of the same, which comes first; not for itself."""
        if entry.contestant.is_plain:
            return None
        for other in self._field.entries:
            if other.contestant.is_plain and other.entrant.engine == entry.entrant.engine:
                cell = dataclasses.replace(empty, contestant=other.name).cell
                return self._file.done.get(cell)
        return None


def in_turn(entries: Sequence[Entry], turn: int) -> Iterator[Entry]:
    """All in an order that changes with each turn; plain decoding first, to compare with."""
    plain = [entry for entry in entries if entry.contestant.is_plain]
    others = [entry for entry in entries if not entry.contestant.is_plain]
    return chain(_rotated(plain, turn), _rotated(others, turn))


def heats(entries: Sequence[Entry], model_bytes: int, memory: int | None) -> list[list[Entry]]:
    """Groups of contestants whose models fit into memory together; at least one in each."""
    found: list[list[Entry]] = []
    left = 0.0
    for entry in entries:
        needed = _BASE_BYTES + entry.entrant.growth * model_bytes
        if not found or needed > left:
            found.append([])
            left = float("inf") if memory is None else 0.8 * memory
        found[-1].append(entry)
        left -= needed
    return found


def digest_of(tokens: Sequence[int]) -> str:
    """A digest of token ids; equal ids have equal ones."""
    return hashlib.sha256(np.asarray(tokens, dtype="<i4").tobytes()).hexdigest()[:_DIGITS]


def _rotated(entries: list[Entry], turn: int) -> list[Entry]:
    first = turn % len(entries) if entries else 0
    return entries[first:] + entries[:first]
