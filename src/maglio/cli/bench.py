"""``maglio bench``: its subcommands. Each lives in a file of its own."""

from __future__ import annotations

import typer

from maglio.cli import (
    bench_field,
    bench_growth,
    bench_record,
    bench_replay,
    bench_report,
    bench_tasks,
)
from maglio.cli.command import LlamaCommand

app = typer.Typer(
    name="bench", help="Measure speed, record runs, judge policies.", no_args_is_help=True
)
app.command("field", cls=LlamaCommand)(bench_field.field)
app.command("growth", cls=LlamaCommand)(bench_growth.growth)
app.command("record", cls=LlamaCommand)(bench_record.record)
app.command("replay", cls=LlamaCommand)(bench_replay.replay)
app.command("report", cls=LlamaCommand)(bench_report.report)
app.command("tasks", cls=LlamaCommand)(bench_tasks.tasks)
