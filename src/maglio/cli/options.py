"""Options that several commands share, spelled as llama.cpp spells them too."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from maglio.checks import MAX_TOKEN_ID
from maglio.cli.terminal import Color
from maglio.errors import InvalidArgumentError

# Headings of the help page.
SAMPLING = "Sampling"
DRAFTING = "Speculation"
OUTPUT = "Output"

ThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--threads",
        "-t",
        help="Threads. Default, and what -1 stands for: physical cores.",
        min=-1,
        show_default=False,
    ),
]
KvCacheOption = Annotated[
    str,
    typer.Option(
        "--kv-cache",
        help="Precision of the KV cache: f16, or q8_0, which takes about half the memory.",
    ),
]
MaxTokensOption = Annotated[
    int,
    typer.Option(
        "--max-tokens",
        "-n",
        "--n-predict",
        "--predict",
        "--gen",
        help="Most tokens to generate; -1: until the context ends.",
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
ChatTemplateOption = Annotated[
    str | None,
    typer.Option(
        "--chat-template",
        metavar="NAME",
        help="Which of the chat templates in the model file, where it has several: tool_use, rag.",
        show_default=False,
    ),
]
ColorOption = Annotated[
    Color,
    typer.Option("--color", "-co", help="Colour tokens by source.", rich_help_panel=OUTPUT),
]


def token_limit(count: int) -> int:
    """The ``max_tokens`` that ``-n`` stands for; -1 and -2 are "until the context ends"."""
    return MAX_TOKEN_ID if count in (-1, -2) else count


def thread_count(threads: int | None) -> int | None:
    """The ``threads`` that ``-t`` stands for; -1 is the default."""
    return None if threads == -1 else threads


def template_variables(option: str | None) -> dict[str, Any]:
    """What ``--chat-template-kwargs`` holds.

    Raises:
        InvalidArgumentError: it is not a JSON object.
    """
    try:
        variables = json.loads(option or "{}")
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"--chat-template-kwargs is not valid JSON: {error}") from error
    if not isinstance(variables, dict):
        raise InvalidArgumentError(
            f"--chat-template-kwargs is {option}; it must be a JSON object such as "
            '{"enable_thinking": false}'
        )
    return variables
