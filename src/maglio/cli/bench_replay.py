"""``maglio bench replay``: judge drafting policies on recorded streams, without a model."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from maglio.bench.calibration import FOLLOWING, Cell, calibrate
from maglio.bench.curves import find_curves
from maglio.bench.judge import DataSet, Result, judge, load_data_set, vocabulary_of
from maglio.bench.peers.arctic import find_suffix_tree
from maglio.bench.policies import POLICIES, find_policies
from maglio.bench.stream import ModelText
from maglio.draft.calibration import EVIDENCE
from maglio.gguf import ModelFile
from maglio.native_model import read_chat_template, read_tokenizer
from maglio.sources.find import find_model
from maglio.text import ChatTemplate

ARCTIC = "suffix-decoding is ArcticInference's own code"
ARCTIC_RULE = "suffix-decoding follows its published rule: arctic-inference is not installed"
BIGRAMS_ONLY = "no rows of a model in this data: recycling learns from committed bigrams only"


def replay(
    data: Annotated[
        list[Path], typer.Argument(help="Recordings (.npz), or files of conversations.")
    ],
    policy: Annotated[
        str, typer.Option("--policy", help=f"Names, by commas: {', '.join(POLICIES)}.")
    ] = "none,record,calibrated",
    cost: Annotated[
        str,
        typer.Option(
            "--cost", help="native, llama.cpp, flat, or JSON files, by commas. Default: the three."
        ),
    ] = "",
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            "--tokenizer",
            help="GGUF file whose tokenizer encodes conversations. Default: the default model.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", help="At most so many conversations per file.", min=1),
    ] = None,
    calibration: Annotated[
        bool,
        typer.Option("--calibration", help="Show how often each source is right, and stop."),
    ] = False,
) -> None:
    """Judge drafting policies on recorded streams: one table per data set, then one JSON line."""
    policies = find_policies(_names(policy))
    curves = find_curves(_names(cost))

    @cache
    def load_text() -> ModelText:
        file = ModelFile(find_model(tokenizer))
        read = read_tokenizer(file)
        return ModelText(read, ChatTemplate(read_chat_template(file), read))

    sets = [load_data_set(path, load_text, limit=limit) for path in data]
    arctic = find_suffix_tree() is not None
    # A pipe has no width to cut figures to.
    console = Console(width=None if sys.stdout.isatty() else 160)
    lines: list[dict[str, Any]] = []
    if any(name.startswith("suffix-decoding") for name in policies):
        console.print(ARCTIC if arctic else ARCTIC_RULE, style="dim", soft_wrap=True)
    for dataset in sets:
        n_vocab = vocabulary_of(dataset)
        if not dataset.has_rows:
            console.print(f"{dataset.name}: {BIGRAMS_ONLY}", style="dim", soft_wrap=True)
        if calibration:
            for group, cells in calibrate(dataset.streams, n_vocab).items():
                console.print(_calibration_table(f"{dataset.name}, {group}", cells))
                console.print(_evidence_table(f"{dataset.name}, {group}: first tokens", cells))
                lines += [_cell_json(dataset, group, cell) for cell in cells]
        else:
            results = judge(dataset, policies, curves, n_vocab)
            console.print(_results_table(dataset, results))
            lines += [result.as_json() for result in results]
    key = "calibration" if calibration else "results"
    rows = {dataset.name: "rows" if dataset.has_rows else "bigrams" for dataset in sets}
    tree = "arctic-inference" if arctic else "rule"
    print(json.dumps({key: lines, "recycling": rows, "suffix-decoding": tree}))


def _names(option: str) -> list[str]:
    return [name.strip() for name in option.split(",") if name.strip()]


def _results_table(dataset: DataSet, results: Sequence[Result]) -> Table:
    table = Table(title=dataset.name, box=box.SIMPLE)
    for column in ("cost", "group", "policy"):
        table.add_column(column, no_wrap=True)
    for column in ("speed-up", "accepted", "length", "rows/acc."):
        table.add_column(column, justify="right")
    previous = None
    for result in results:
        if previous is not None and previous.cost != result.cost:
            table.add_section()
        previous = result
        tally = result.tally
        rows = tally.rows_per_accepted
        table.add_row(
            result.cost,
            result.group,
            result.policy,
            f"{result.speedup:.2f}",
            f"{tally.acceptance_rate:.2f}",
            f"{tally.mean_acceptance_length:.2f}",
            "-" if rows is None else f"{rows:.2f}",
        )
    return table


def _calibration_table(title: str, cells: Sequence[Cell]) -> Table:
    table = Table(title=title, box=box.SIMPLE)
    table.add_column("source")
    table.add_column("match")
    table.add_column("times", justify="right")
    for place in range(1 + FOLLOWING):
        table.add_column(f"P(token {place + 1})", justify="right")
    for cell in cells:
        values = [cell.probability(place) for place in range(1 + FOLLOWING)]
        table.add_row(
            cell.source,
            cell.bucket,
            str(cell.tried[0]),
            *map(_share, values),
        )
    return table


def _evidence_table(title: str, cells: Sequence[Cell]) -> Table:
    """P(token 1) by what the occurrences of its context say."""
    table = Table(title=title, box=box.SIMPLE)
    table.add_column("match")
    for name in EVIDENCE:
        table.add_column(name, justify="right")
    for cell in cells:
        if cell.source != "recycling":
            values = [cell.weighed_probability(evidence) for evidence in range(len(EVIDENCE))]
            table.add_row(cell.bucket, *map(_share, values))
    return table


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _cell_json(dataset: DataSet, group: str, cell: Cell) -> dict[str, Any]:
    return {
        "dataset": dataset.name,
        "group": group,
        "source": cell.source,
        "match": cell.bucket,
        "tried": cell.tried,
        "accepted": cell.accepted,
        "by_evidence": {
            name: [cell.weighed_tried[i], cell.weighed_accepted[i]]
            for i, name in enumerate(EVIDENCE)
        },
    }
