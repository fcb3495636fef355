"""``maglio chat``: a conversation with a model, at a terminal or in a pipe."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

import maglio
from maglio.cli.line_reader import LineReader, PipeReader, TerminalReader
from maglio.cli.options import (
    DRAFTING,
    OUTPUT,
    ColorOption,
    ContextOption,
    MinPOption,
    ModelOption,
    RepeatPenaltyOption,
    SeedOption,
    TemperatureOption,
    TemplateVariablesOption,
    ThreadsOption,
    TopKOption,
    TopPOption,
    template_variables,
)
from maglio.cli.repl import Repl
from maglio.cli.terminal import PrefillProgress, wants_color


def chat(
    model: ModelOption = None,
    system: Annotated[
        str | None,
        typer.Option(
            "--system", "-sys", "--system-prompt", help="System prompt.", show_default=False
        ),
    ] = None,
    max_tokens: Annotated[
        int,
        typer.Option("--max-tokens", "-n", "--predict", help="Most tokens of an answer.", min=1),
    ] = 512,
    stop: Annotated[
        list[str] | None,
        typer.Option(
            "--stop", help="End an answer before this text. Repeatable.", show_default=False
        ),
    ] = None,
    n_ctx: ContextOption = 4096,
    threads: ThreadsOption = None,
    on_full: Annotated[
        Literal["stop", "drop"],
        typer.Option("--on-full", help="When the context is full: stop, or drop oldest turns."),
    ] = "stop",
    variables: TemplateVariablesOption = None,
    conversation: Annotated[
        Path | None,
        typer.Option(
            "--conversation",
            help="Go on with this saved conversation, if it exists, and save after each turn.",
            show_default=False,
        ),
    ] = None,
    temperature: TemperatureOption = 0.0,
    top_k: TopKOption = 0,
    top_p: TopPOption = 1.0,
    min_p: MinPOption = 0.0,
    repeat_penalty: RepeatPenaltyOption = 1.0,
    seed: SeedOption = 0,
    spec: Annotated[
        bool,
        typer.Option(
            "--spec/--no-spec",
            help="Draft and verify. What is said is the same either way.",
            rich_help_panel=DRAFTING,
        ),
    ] = True,
    reference: Annotated[
        list[Path] | None,
        typer.Option(
            "--reference",
            "--spec-ref",
            help="Draft from this too: a text file, a folder of them, or an index file "
            "(*.maglio). Repeatable.",
            rich_help_panel=DRAFTING,
            show_default=False,
        ),
    ] = None,
    save_history: Annotated[
        bool,
        typer.Option(
            "--save-history",
            help="Keep the token ids of conversations on this machine and draft from earlier ones.",
            rich_help_panel=DRAFTING,
        ),
    ] = False,
    clear_history: Annotated[
        bool,
        typer.Option(
            "--clear-history",
            help="Delete what --save-history has kept for this model, and leave.",
            rich_help_panel=DRAFTING,
        ),
    ] = False,
    color: ColorOption = "auto",
    hide_thinking: Annotated[
        bool,
        typer.Option("--hide-thinking", help="Hide thinking blocks.", rich_help_panel=OUTPUT),
    ] = False,
    stats: Annotated[
        bool,
        typer.Option("--stats", help="A line on stderr after each turn.", rich_help_panel=OUTPUT),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="One JSON object per answer.", rich_help_panel=OUTPUT),
    ] = False,
    repl: Annotated[bool, typer.Option("--repl", hidden=True)] = False,  # the name others use
) -> None:
    """Talk with a model. /help lists the commands; a pipe gives one message per line."""
    loaded = maglio.load(model, n_ctx=n_ctx, threads=threads)
    if clear_history:
        loaded.history_file.clear()
        return
    talk = loaded.chat(
        system,
        sampling=maglio.SamplingParams(
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repeat_penalty=repeat_penalty,
            seed=seed,
        ),
        speculation=_speculation(loaded, spec=spec, save_history=save_history),
        references=reference or (),
        max_tokens=max_tokens,
        on_full=on_full,
        stop=stop or (),
        on_prefill=PrefillProgress(),
        template_variables=template_variables(variables),
    )
    if conversation is not None and conversation.exists():
        talk.load(conversation)
    interactive = sys.stdin.isatty()
    reader: LineReader = TerminalReader() if interactive else PipeReader()
    if interactive:
        print("/help lists the commands, Ctrl-D leaves", file=sys.stderr)
    status = Repl(
        talk,
        reader,
        sys.stdout,
        color=wants_color(color, sys.stdout),
        show_thinking=not hide_thinking,
        stats=stats,
        as_json=as_json,
        autosave=conversation,
    ).run()
    if status:
        raise typer.Exit(status)


def _speculation(
    model: maglio.Model, *, spec: bool, save_history: bool
) -> bool | maglio.Speculation:
    if not spec or not save_history:
        return spec
    return maglio.Speculation(history=maglio.History(store=model.history_file))
