"""``maglio bench tasks``: plain against speculative decoding, task by task."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

import maglio
from maglio.bench.data import read_dialogues
from maglio.bench.report import html_report
from maglio.bench.tasks import (
    BUILT_IN,
    GroupSummary,
    Task,
    TaskResult,
    run_task,
    summarise,
)
from maglio.cli.drafting_options import PolicyName
from maglio.cli.model_options import ModelOptions
from maglio.cli.option_groups import with_option_groups
from maglio.errors import InvalidArgumentError, MaglioError
from maglio.files import write_atomic
from maglio.model import Model


@with_option_groups
def tasks(
    *,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            "--data",
            help="A file of prompts (Spec-Bench, MT-bench, EditEval, HumanEval, GSM8K) instead of "
            "the built-in ones; code to edit is a reference too. Repeatable.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", help="Prompts of a file per category.", min=1)
    ] = 4,
    model: ModelOptions,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", "-n", help="Most tokens per run.", min=2)
    ] = 128,
    rounds: Annotated[
        int, typer.Option("--rounds", "-r", help="Pairs of runs per prompt.", min=1)
    ] = 3,
    sampled: Annotated[
        bool, typer.Option("--sampled/--greedy-only", help="Run each task at T=0.7 too.")
    ] = True,
    policy: Annotated[
        PolicyName, typer.Option("--policy", help="How drafts are cut.")
    ] = "calibrated",
    gate: Annotated[
        bool, typer.Option("--gate/--no-gate", help="Switch drafting off where it loses.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write a report to this file.", show_default=False),
    ] = None,
) -> None:
    """Time plain and speculative decoding by turns in one process, and compare what they say."""
    chosen = list(BUILT_IN) if not data else [task for path in data for task in _some(path, limit)]
    if sampled:
        chosen += [task.sampled() for task in chosen]
    loaded = model.load()
    notes = Console(stderr=True, highlight=False)
    speculation = maglio.Speculation(source=policy, gate=gate, history=False)
    results: list[TaskResult] = []
    for task in track(chosen, "measuring", console=notes, disable=not notes.is_terminal):
        if len(task.encode(loaded)) + max_tokens > loaded.engine.n_ctx:
            notes.print(f"left out a prompt of {task.group}: the context is too short for it")
            continue
        results.append(
            run_task(loaded, task, max_tokens=max_tokens, rounds=rounds, speculation=speculation)
        )
    if not results:
        raise InvalidArgumentError("no prompt fits the context; give a longer one with --ctx-size")
    _print(results, as_json=as_json)
    if html is not None:
        _write_report(html, results, loaded)
        notes.print(f"report {html}", soft_wrap=True)
    if loaded.promised == "bitwise" and not all(result.equal for result in results):
        raise MaglioError("speculative output differed from plain output; please report this")


def _some(path: Path, limit: int) -> list[Task]:
    """The first prompts of every category."""
    seen: dict[str, int] = {}
    chosen: list[Task] = []
    for dialogue in read_dialogues(path):
        group = f"{path.name.split('.')[0]} {dialogue.category}".strip()
        seen[group] = seen.get(group, 0) + 1
        if seen[group] <= limit:
            reference = dialogue.material or None
            chosen.append(Task(group=group, messages=dialogue.prompt, reference=reference))
    return chosen


def _write_report(path: Path, results: list[TaskResult], model: Model) -> None:
    title = f"Maglio {maglio.__version__}: {model.name}"
    try:
        write_atomic(path, html_report(results, title=title, cost=model.cost).encode())
    except OSError as error:
        raise InvalidArgumentError(f"cannot write {path}: {error.strerror}") from error


def _print(results: list[TaskResult], *, as_json: bool) -> None:
    groups = summarise(results)
    if as_json:
        print(json.dumps(_document(groups, results)))
        return
    out = Console(highlight=False)
    out.print(_speeds(groups))
    out.print(_drafting(results))


def _speeds(groups: list[GroupSummary]) -> Table:
    table = Table(title="Tokens per second, plain and speculative by turns")
    table.add_column("task")
    for heading in ("prompts", "plain", "spec", "ratio", "quartiles", "worst", "outputs"):
        table.add_column(heading, justify="right")
    for group in groups:
        table.add_row(
            group.group,
            str(group.prompts),
            f"{group.plain:.1f}",
            f"{group.speculative:.1f}",
            f"{group.ratio.median:.2f}",
            f"{group.ratio.low:.2f}-{group.ratio.high:.2f}",
            f"{group.worst:.2f}",
            "equal" if group.equal else "DIFFERENT",
        )
    return table


def _drafting(results: list[TaskResult]) -> Table:
    table = Table(title="Drafting")
    table.add_column("task")
    for heading in ("accepted", "tok/step", "by source", "trips/probes/off"):
        table.add_column(heading, justify="right")
    for result in results:
        stats = result.stats
        table.add_row(
            result.group,
            f"{100 * stats.acceptance_rate:.0f}%",
            f"{stats.tokens_per_step:.2f}",
            " ".join(
                f"{name} {counts.accepted}/{counts.drafted}"
                for name, counts in stats.sources.items()
                if counts.drafted
            ),
            f"{stats.gate_trips}/{stats.gate_probes}/{stats.gate_disabled_steps}",
        )
    return table


def _document(groups: list[GroupSummary], results: list[TaskResult]) -> dict[str, Any]:
    return {
        "groups": [dataclasses.asdict(group) for group in groups],
        "results": [_result(result) for result in results],
    }


def _result(result: TaskResult) -> dict[str, Any]:
    stats = result.stats
    return {
        "group": result.group,
        "prompt_tokens": result.prompt_tokens,
        "tokens": stats.committed,
        "plain": dataclasses.asdict(result.plain),
        "speculative": dataclasses.asdict(result.speculative),
        "ratio": dataclasses.asdict(result.ratio),
        "equal": result.equal,
        "acceptance_rate": stats.acceptance_rate,
        "tokens_per_step": stats.tokens_per_step,
        "sources": {name: dataclasses.asdict(counts) for name, counts in stats.sources.items()},
        "gate_trips": stats.gate_trips,
        "gate_probes": stats.gate_probes,
        "gate_disabled_steps": stats.gate_disabled_steps,
    }
