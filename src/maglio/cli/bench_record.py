"""``maglio bench record``: run a model once and keep its rows, to judge drafting without it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from maglio.bench.data import Dialogue, read_dialogues
from maglio.bench.record import record_run
from maglio.bench.runs_file import Run, write_runs
from maglio.bench.stream import ModelText, encode_prompt
from maglio.cli.model_options import ModelOptions
from maglio.cli.option_groups import with_option_groups
from maglio.model import Model


@with_option_groups
def record(
    *,
    data: Annotated[
        list[Path], typer.Argument(help="Files of prompts, or of conversations to begin anew.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The recording, an .npz file.")],
    model: ModelOptions,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", "-n", help="Most tokens to generate per prompt.", min=1)
    ] = 200,
    limit: Annotated[
        int | None,
        typer.Option("--limit", help="At most so many prompts per category.", min=1),
    ] = None,
) -> None:
    """Answer prompts greedily and record the best candidates of every row, prompts included."""
    dialogues = [dialogue for path in data for dialogue in _some(path, limit)]
    loaded = model.load()
    console = Console(stderr=True)
    runs = list(_runs(loaded, dialogues, max_tokens, console))
    write_runs(output, runs)
    tokens = sum(len(run.output) for run in runs)
    print(f"recorded {len(runs)} runs of {tokens} tokens in {output}", file=sys.stderr)


def _some(path: Path, limit: int | None) -> Iterator[Dialogue]:
    """The first dialogues of every category."""
    seen: dict[str, int] = {}
    for dialogue in read_dialogues(path):
        seen[dialogue.category] = seen.get(dialogue.category, 0) + 1
        if limit is None or seen[dialogue.category] <= limit:
            yield dialogue


def _runs(
    model: Model, dialogues: list[Dialogue], max_tokens: int, console: Console
) -> Iterator[Run]:
    text = ModelText(model.tokenizer, model.chat_template)
    for dialogue in track(dialogues, "recording", console=console):
        prompt = encode_prompt(dialogue.prompt, text)
        if len(prompt) >= model.engine.n_ctx:
            console.print(f"skipped a {dialogue.category} prompt of {len(prompt)} tokens")
            continue
        yield record_run(
            model.session(),
            prompt,
            category=dialogue.category,
            max_tokens=max_tokens,
            stop_tokens=model.tokenizer.eog_ids,
        )
