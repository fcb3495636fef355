"""Options that several commands share, spelled as llama.cpp spells them too."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
