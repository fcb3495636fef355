"""``maglio tokenize``: the token ids of a text, one per line, to compare with other tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from maglio.cli.options import ModelOption
from maglio.default_model import default_model_path
from maglio.engine.native import ModelFile
from maglio.errors import InvalidArgumentError
from maglio.text.tokenizer import from_metadata


def tokenize(
    file: Annotated[Path, typer.Argument(help="Text file; '-' reads stdin.", show_default=False)],
    model: ModelOption = None,
    special: Annotated[
        bool,
        typer.Option(
            "--special/--no-special", help="Add the BOS and EOS tokens the model asks for."
        ),
    ] = True,
    parse_special: Annotated[
        bool,
        typer.Option("--parse-special", help="Read control tokens spelled out in the text."),
    ] = False,
) -> None:
    """Print the token ids of a text, one per line."""
    tokenizer = from_metadata(ModelFile(default_model_path() if model is None else model).metadata)
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise InvalidArgumentError(f"cannot read {file}: {error.strerror}") from error
    ids = tokenizer.encode(data, add_special=special, parse_special=parse_special)
    sys.stdout.writelines(f"{token}\n" for token in ids)
