"""The ``maglio`` command: its subcommands, and how errors end it."""

from __future__ import annotations

import os
import sys

import typer

import maglio
from maglio.cli import bench, chat, generate, index, probe, tokenize

app = typer.Typer(
    name="maglio",
    help="Run language models on this machine, decoded speculatively and exactly.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("generate")(generate.generate)
app.command("chat")(chat.chat)
app.command("probe")(probe.probe)
app.command("spec-bench", hidden=True)(probe.probe)
app.command("tokenize")(tokenize.tokenize)
app.add_typer(index.app, name="index")
app.add_typer(bench.app, name="bench")


_FLAGS = {"--spec-bench": "probe", "--repl": "chat"}
"""Commands that others spell as flags."""


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"maglio {maglio.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", help="Print the version.", callback=_print_version, is_eager=True
    ),
) -> None:
    pass


def main() -> None:
    """Run the command line; every expected failure is one line on stderr."""
    try:
        app([_FLAGS.get(argument, argument) for argument in sys.argv[1:2]] + sys.argv[2:])
    except maglio.MaglioError as error:
        print(f"maglio: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has left. Keep Python from complaining again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
