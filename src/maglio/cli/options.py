"""Options that several commands share, spelled as llama.cpp spells them too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from maglio.cli.terminal import Color
from maglio.errors import InvalidArgumentError

PolicyName = Literal["calibrated", "record", "recycling"]

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
TemplateVariablesOption = Annotated[
    str | None,
    typer.Option(
        "--chat-template-kwargs",
        help="A JSON object of what the chat template reads: '{\"enable_thinking\": false}'.",
        show_default=False,
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


def template_variables(option: str | None) -> dict[str, Any]:
    """What ``--chat-template-kwargs`` holds.

    Raises:
        InvalidArgumentError: it is no JSON object.
    """
    try:
        variables = json.loads(option or "{}")
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"--chat-template-kwargs is no JSON: {error}") from error
    if not isinstance(variables, dict):
        raise InvalidArgumentError(
            f"--chat-template-kwargs is {option}; it must be a JSON object such as "
            '{"enable_thinking": false}'
        )
    return variables
