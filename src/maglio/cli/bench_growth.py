"""``maglio bench growth``: how costs grow, each beside the order that it should have."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

import maglio
from maglio.bench.field.line import GrowthPoint, Header
from maglio.bench.field.words import amount, count, figure
from maglio.bench.growth.measure import growth_points
from maglio.bench.growth.points_file import PointsFile
from maglio.bench.growth.scale import FULL, QUICK
from maglio.bench.growth.steps import SIZE_CONTEXT, WIDTHS
from maglio.cli.field_facts import field_machine, field_model
from maglio.cli.model_choice import ModelChoice
from maglio.cli.option_groups import with_option_groups
from maglio.cli.options import KvCacheOption, ThreadsOption, thread_count
from maglio.cli.terminal import LoadProgress
from maglio.engine.base import Engine
from maglio.engine.native import NativeEngine
from maglio.gguf import ModelFile
from maglio.machine import physical_cores


@with_option_groups
def growth(
    *,
    choice: ModelChoice,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="File of results to add points to; those that it has are not measured again.",
        ),
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer points and shorter ones: about a minute.")
    ] = False,
    shapes: Annotated[
        list[Path] | None,
        typer.Option(
            "--shapes",
            metavar="FILE",
            help="Model of another size, such as scripts/write_shape.py writes, to compare the "
            "time of a step with. Repeatable.",
            show_default=False,
        ),
    ] = None,
    threads: ThreadsOption = None,
    kv_cache: KvCacheOption = "f16",
) -> None:
    """Measure how time and memory grow with context, references, streams, turns, hours and size."""
    scale = QUICK if quick else FULL
    path = choice.find()
    for shape in shapes or ():
        ModelFile(shape)  # a wrong name is said before anything is measured
    with LoadProgress() as progress:
        model = maglio.load(
            path,
            n_ctx=scale.n_ctx,
            threads=thread_count(threads),
            kv_cache=kv_cache,
            on_load=progress,
        )
    notes = Console(stderr=True, highlight=False)
    header = _header(path, thread_count(threads) or physical_cores())
    with PointsFile(output, header) as file:
        known = len(file)
        points = growth_points(
            model,
            scale,
            file.lacks,
            shapes=shapes or (),
            open_engine=partial(_open, threads=thread_count(threads), kv_cache=kv_cache),
        )
        for point in points:
            if file.lacks(point.curve, point.series, point.x):
                file.add(point)
                notes.print(escape(_said(point)), soft_wrap=True)
        added = len(file) - known
        notes.print(f"{count(added, 'point')} added to {escape(str(output))}", soft_wrap=True)


def _header(path: Path, threads: int) -> Header:
    """Of a file without contestants; one that has them keeps its own."""
    return Header(
        model=field_model(path),
        machine=field_machine(),
        threads=threads,
        n_ctx=0,
        max_tokens=0,
        rounds=0,
        started=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        contestants=(),
        tasks=(),
    )


def _open(path: Path, *, threads: int | None, kv_cache: str) -> Engine:
    n_ctx = SIZE_CONTEXT + max(WIDTHS.values())
    return NativeEngine(ModelFile(path), n_ctx=n_ctx, threads=threads, kv_cache=kv_cache)


def _said(point: GrowthPoint) -> str:
    name = ", ".join(filter(None, (point.curve, point.series)))
    return f"{name}: {figure(point.value)} {point.unit} at {amount(point.x)} {point.x_name}"
