"""``maglio index build``: text files into one index file, to be used as a reference."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from maglio.cli.command import LlamaCommand
from maglio.cli.model_choice import ModelChoice
from maglio.cli.option_groups import with_option_groups
from maglio.draft.reference import save_index
from maglio.errors import InvalidArgumentError
from maglio.gguf import ModelFile
from maglio.native_model import read_tokenizer
from maglio.references import INDEX_SUFFIX, index_files

app = typer.Typer(help="Indexes of reference documents.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep ``build`` a subcommand although it is the only one."""


@app.command(cls=LlamaCommand)
@with_option_groups
def build(
    *,
    paths: Annotated[
        list[Path], typer.Argument(help="Text files, or folders of them.", show_default=False)
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Index file to write, such as docs.maglio."),
    ],
    choice: ModelChoice,
) -> None:
    """Index text with a model's tokenizer, for --reference."""
    if output.suffix != INDEX_SUFFIX:
        raise InvalidArgumentError(f"the index file must be named *{INDEX_SUFFIX}, not {output}")
    tokenizer = read_tokenizer(ModelFile(choice.find()))
    index = index_files(paths, tokenizer, progress=_report)
    save_index(index, output, fingerprint=tokenizer.fingerprint)
    size = output.stat().st_size
    print(f"{output}: {len(index):,} tokens, {size / 1e6:.1f} MB", file=sys.stderr)


def _report(done: int, total: int, file: Path) -> None:
    print(f"{done + 1} of {total}: {file}", file=sys.stderr)
