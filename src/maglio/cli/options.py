"""Options that several commands share, spelled as llama.cpp spells them too."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maglio.cli.terminal import Color

# Headings of the help page.
SAMPLING = "Sampling"
DRAFTING = "Speculation"
OUTPUT = "Output"

ModelOption = Annotated[
    Path | None,
    typer.Option(
        "--model",
        "-m",
        help="GGUF file. Default: SmolLM2-135M-Instruct, if installed.",
        show_default=False,
    ),
]
ContextOption = Annotated[
    int,
    typer.Option("--ctx-size", "-c", "--n-ctx", help="Context length in tokens.", min=1),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--threads", "-t", help="Threads. Default: physical cores.", min=1, show_default=False
    ),
]
TemperatureOption = Annotated[
    float,
    typer.Option("--temp", "--temperature", help="0 is greedy.", rich_help_panel=SAMPLING),
]
TopKOption = Annotated[int, typer.Option("--top-k", help="0 is off.", rich_help_panel=SAMPLING)]
TopPOption = Annotated[float, typer.Option("--top-p", help="1 is off.", rich_help_panel=SAMPLING)]
MinPOption = Annotated[float, typer.Option("--min-p", help="0 is off.", rich_help_panel=SAMPLING)]
RepeatPenaltyOption = Annotated[
    float, typer.Option("--repeat-penalty", help="1 is off.", rich_help_panel=SAMPLING)
]
SeedOption = Annotated[
    int, typer.Option("--seed", "-s", help="Random seed.", rich_help_panel=SAMPLING)
]
ColorOption = Annotated[
    Color,
    typer.Option("--color", help="Colour tokens by source.", rich_help_panel=OUTPUT),
]
