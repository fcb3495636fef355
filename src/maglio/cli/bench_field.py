"""``maglio bench field``: Maglio beside other engines and methods, task by task."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console

from maglio.bench.field.contestants import ENTRANTS, Entry, find
from maglio.bench.field.data_tasks import data_kinds
from maglio.bench.field.line import FieldRun, Header
from maglio.bench.field.prompts import Kind, TaskPrompts, built_in, encode
from maglio.bench.field.results_file import ResultsFile
from maglio.bench.field.runner import Field, FieldRunner
from maglio.bench.stream import ModelText
from maglio.cli.field_facts import field_machine, field_model
from maglio.cli.field_progress import FieldProgress
from maglio.cli.interrupts import Terminated, terminate_once
from maglio.cli.model_choice import ModelChoice
from maglio.cli.option_groups import with_option_groups
from maglio.cli.options import ThreadsOption, thread_count
from maglio.errors import InvalidArgumentError, MaglioError, ModelFileError
from maglio.gguf import ModelFile
from maglio.machine import physical_cores
from maglio.native_model import read_chat_template, read_tokenizer
from maglio.text import ChatTemplate

T = TypeVar("T", Entry, Kind)
SAMPLED = 0.7


@dataclass(frozen=True, slots=True)
class _Scale:
    """How much is run."""

    prompts: int
    rounds: int
    max_tokens: int


_FULL = _Scale(prompts=4, rounds=3, max_tokens=128)
_QUICK = _Scale(prompts=1, rounds=1, max_tokens=48)


@with_option_groups
def field(
    *,
    model: ModelChoice,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Keep the results in this file, a line of JSON for each run. Runs that are there "
            "are not made again. Default: field-MODEL.jsonl, or field-quick-MODEL.jsonl.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            help="Folder of public data sets, for more than the built-in tasks: Spec-Bench, "
            "EditEval, HumanEval, agent traces, JSON answers, GSM8K (docs/bench-field.md).",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="The built-in tasks once, greedily, 48 tokens each; data sets only where --tasks "
            "names them.",
        ),
    ] = False,
    contestants: Annotated[
        str,
        typer.Option(
            "--contestants",
            metavar="NAMES",
            help="Names by commas; * stands for any text: 'maglio*,llama.cpp-*'.",
        ),
    ] = "*",
    tasks: Annotated[
        str | None,
        typer.Option(
            "--tasks",
            metavar="NAMES",
            help="Names by commas; * stands for any text: 'edits*,free form'. Default: all.",
            show_default=False,
        ),
    ] = None,
    show: Annotated[
        bool, typer.Option("--list", help="Name contestants and tasks, and run nothing.")
    ] = False,
    peer: Annotated[
        list[str] | None,
        typer.Option(
            "--peer",
            metavar="PYTHON",
            help="Interpreter to look for peers in, besides this one. Repeatable.",
            show_default=False,
        ),
    ] = None,
    prompts: Annotated[
        int | None,
        typer.Option(
            "--prompts",
            help=f"Prompts of a task. Default: {_FULL.prompts}; quick: {_QUICK.prompts}.",
            min=1,
            show_default=False,
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            "--rounds",
            "-r",
            help=f"Runs of each prompt. Default: {_FULL.rounds}; quick: {_QUICK.rounds}.",
            min=1,
            show_default=False,
        ),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens",
            "-n",
            help=f"Most tokens of a run. Default: {_FULL.max_tokens}; quick: {_QUICK.max_tokens}.",
            min=2,
            show_default=False,
        ),
    ] = None,
    sampled: Annotated[
        bool | None,
        typer.Option(
            "--sampled/--greedy-only",
            help="Run each prompt at T=0.7 too. Default: yes; quick: no.",
            show_default=False,
        ),
    ] = None,
    n_ctx: Annotated[
        int,
        typer.Option(
            "--ctx-size",
            "-c",
            "--n-ctx",
            help="Context in tokens; longer prompts are left out.",
            min=64,
        ),
    ] = 4096,
    threads: ThreadsOption = None,
    time_limit: Annotated[
        float,
        typer.Option("--time-limit", help="Seconds that a run may take.", min=1.0),
    ] = 300.0,
) -> None:
    """Time Maglio and other engines by turns on the same prompts, each in a process of its own."""
    notes = Console(stderr=True, highlight=False, markup=False)
    scale = _QUICK if quick else _FULL
    sampled = not quick if sampled is None else sampled
    scale = _Scale(prompts or scale.prompts, rounds or scale.rounds, max_tokens or scale.max_tokens)
    entries = _chosen("contestant", find(ENTRANTS, peer or ()), contestants)
    kinds = _kinds(data, tasks, quick=quick)
    if show:
        _list(entries, kinds)
        return
    file = _gguf(model.find())
    # No contestant is asked for more than what the model was trained for.
    n_ctx = min(n_ctx, file.integer(f"{file.text('general.architecture')}.context_length", n_ctx))
    tokenizer = read_tokenizer(file)
    text = ModelText(tokenizer, ChatTemplate(read_chat_template(file), tokenizer))
    for entry in entries:
        if not entry.python:
            notes.print(f"absent: {entry.name}: {entry.contestant.absent}", soft_wrap=True)
    running = Field(
        model=str(file.path.absolute()),
        entries=[entry for entry in entries if entry.python],
        tasks=list(_encoded(kinds, text, scale, n_ctx, notes)),
        temperatures=(0.0, SAMPLED) if sampled else (0.0,),
        rounds=scale.rounds,
        max_tokens=scale.max_tokens,
        n_ctx=n_ctx,
        threads=thread_count(threads) or physical_cores(),
        ends=sorted(tokenizer.eog_ids),
        limit_s=time_limit,
    )
    if running.cells == 0:
        raise InvalidArgumentError("no contestant is installed, or no prompt fits the context")
    to = output or Path(f"field-{'quick-' if quick else ''}{file.path.stem}.jsonl")
    with ResultsFile(to, _header(file.path, running, entries)) as results, terminate_once():
        _run(running, results, to, notes)
        check_equal(entries, results.done.values())


def check_equal(entries: Iterable[Entry], runs: Iterable[FieldRun]) -> None:
    """Raise MaglioError if Maglio's own engine has said something else than it says plainly."""
    ours = {entry.name for entry in entries if entry.entrant.engine == "maglio"}
    different = [run for run in runs if run.contestant in ours and run.equal is False]
    if different:
        first = different[0]
        raise MaglioError(
            f"output differed from plain decoding in {len(different)} runs, first in {first.task}, "
            f"prompt {first.prompt}, at temperature {first.temperature:g}; please report this"
        )


def _run(running: Field, results: ResultsFile, to: Path, notes: Console) -> None:
    runner = FieldRunner(running, results, model_bytes=Path(running.model).stat().st_size)
    missing = runner.missing()
    if missing == 0:
        notes.print(
            f"all {running.cells} runs are in {to}; remove it, or give another file with "
            "--output, to make them again",
            soft_wrap=True,
        )
        return
    try:
        with FieldProgress(running, missing, notes) as progress, closing(runner.runs()) as runs:
            for run in runs:
                progress.show(run)
    except KeyboardInterrupt as interrupt:
        made = running.cells - runner.missing()
        notes.print(f"{made} of {running.cells} runs are in {to}; the same command goes on")
        by = signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT
        raise typer.Exit(128 + by) from None
    notes.print(f"results {to}", soft_wrap=True)


def _kinds(data: Path | None, tasks: str | None, *, quick: bool) -> list[Kind]:
    kinds = built_in()
    if data is not None and (tasks is not None or not quick):
        kinds += data_kinds(data)
    return kinds if tasks is None else _chosen("task", kinds, tasks)


def _chosen(what: str, known: Sequence[T], patterns: str) -> list[T]:
    """Those whose names are asked for, in their own order."""
    wanted = [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
    for pattern in wanted:
        if not any(fnmatchcase(one.name, pattern) for one in known):
            names = ", ".join(one.name for one in known)
            raise InvalidArgumentError(f"there is no {what} {pattern!r}; there are {names}")
    return [one for one in known if any(fnmatchcase(one.name, pattern) for pattern in wanted)]


def _list(entries: Sequence[Entry], kinds: Sequence[Kind]) -> None:
    for entry in entries:
        found = entry.contestant
        print(f"{entry.name:28} {found.version or f'absent: {found.absent}'}")
    print()
    for kind in kinds:
        print(f"{kind.name:28} {kind.data}, {len(kind.items)} prompts")


def _gguf(path: Path) -> ModelFile:
    if path.is_dir():
        raise ModelFileError(
            f"{path} is a folder; all contestants run the same file, so give a GGUF file"
        )
    return ModelFile(path)


def _encoded(
    kinds: Sequence[Kind], text: ModelText, scale: _Scale, n_ctx: int, notes: Console
) -> Iterator[TaskPrompts]:
    for kind in kinds:
        task = encode(kind, text, count=scale.prompts, most=n_ctx - scale.max_tokens - 1)
        if task is None:
            notes.print(f"left out {kind.name}: no prompt fits the context and the chat template")
        else:
            yield task


def _header(path: Path, running: Field, entries: Sequence[Entry]) -> Header:
    return Header(
        field_model(path),
        field_machine(),
        running.threads,
        running.n_ctx,
        running.max_tokens,
        running.rounds,
        datetime.now(timezone.utc).isoformat(timespec="seconds"),
        tuple(entry.contestant for entry in entries),
        tuple(task.task for task in running.tasks),
    )
