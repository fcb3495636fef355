"""The ``maglio`` command: its subcommands, and how errors end it."""

from __future__ import annotations

import sys

import typer

import maglio
from maglio.cli import (
    batch,
    bench,
    chat,
    demo,
    doctor,
    generate,
    index,
    models,
    probe,
    serve,
    tokenize,
)
from maglio.cli.command import LlamaCommand
from maglio.cli.interrupts import end_at_next_interrupt, interrupt_once
from maglio.cli.streams import finish_output, note, prepare

app = typer.Typer(
    name="maglio",
    help="Run language models on this machine, decoded speculatively and exactly.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("generate", cls=LlamaCommand)(generate.generate)
app.command("chat", cls=LlamaCommand)(chat.chat)
app.command("serve", cls=LlamaCommand)(serve.serve)
app.command("batch", cls=LlamaCommand)(batch.batch)
app.command("demo", cls=LlamaCommand)(demo.demo)
app.command("probe", cls=LlamaCommand)(probe.probe)
app.command("spec-bench", hidden=True, cls=LlamaCommand)(probe.probe)
app.command("doctor", cls=LlamaCommand)(doctor.doctor)
app.command("models", cls=LlamaCommand)(models.models)
app.command("inspect", cls=LlamaCommand)(models.inspect_file)
app.command("tokenize", cls=LlamaCommand)(tokenize.tokenize)
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
    status = 0
    interrupt_once()
    try:
        prepare()
        with finish_output():
            app([_FLAGS.get(argument, argument) for argument in sys.argv[1:2]] + sys.argv[2:])
    except maglio.MaglioError as error:
        note(f"maglio: {error}")
        status = 1
    except KeyboardInterrupt:
        status = 130
    finally:
        end_at_next_interrupt()
    sys.exit(status)
