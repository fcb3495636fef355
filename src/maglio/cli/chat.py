"""``maglio chat``: a conversation with a model, at a terminal or in a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from maglio.chat import Conversation
from maglio.cli.answer_writer import View
from maglio.cli.chat_commands import load_with_notes
from maglio.cli.chat_settings import Settings
from maglio.cli.drafting_options import DraftingOptions, HistoryOptions
from maglio.cli.line_reader import LineReader, PipeReader, TerminalReader
from maglio.cli.model_options import ModelOptions
from maglio.cli.option_groups import given, with_option_groups
from maglio.cli.options import (
    OUTPUT,
    ChatTemplateOption,
    ColorOption,
    MaxTokensOption,
    TemplateVariablesOption,
    template_variables,
    token_limit,
)
from maglio.cli.repl import Repl
from maglio.cli.sampling_options import SamplingOptions
from maglio.cli.streams import note
from maglio.cli.terminal import PrefillProgress, note_engine, note_seed, wants_color
from maglio.cli.text_options import TextOptions, read_bytes, standard_input, without_bom
from maglio.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemOptions:
    """What the model is told first."""

    system: Annotated[
        str | None,
        typer.Option(
            "--system", "-sys", "--system-prompt", help="System prompt.", show_default=False
        ),
    ] = None
    system_file: Annotated[
        Path | None,
        typer.Option(
            "--system-prompt-file",
            "-sysf",
            help="Read the system prompt from a file.",
            show_default=False,
        ),
    ] = None

    def prompt(self, texts: TextOptions) -> str | None:
        """The system prompt, if any; escape sequences are read as ``texts`` says.

        Raises:
            InvalidArgumentError: it is given twice, or cannot be read.
        """
        if self.system_file is None:
            return None if self.system is None else texts.unescaped(self.system)
        if self.system is not None:
            raise InvalidArgumentError("give either --system or --system-prompt-file")
        data = without_bom(read_bytes(self.system_file)).removesuffix(b"\n")
        return data.decode("utf-8", "surrogateescape")


@with_option_groups
def chat(
    *,
    context: typer.Context,
    loading: ModelOptions,
    telling: SystemOptions,
    texts: TextOptions,
    single_turn: Annotated[
        bool, typer.Option("--single-turn", "-st", help="Leave after one answer.")
    ] = False,
    max_tokens: MaxTokensOption = 512,
    on_full: Annotated[
        Literal["stop", "drop"],
        typer.Option("--on-full", help="When the context is full: stop, or drop oldest turns."),
    ] = "stop",
    chat_template: ChatTemplateOption = None,
    variables: TemplateVariablesOption = None,
    conversation: Annotated[
        Path | None,
        typer.Option(
            "--conversation",
            help="Go on with this saved conversation, if it exists, and save after each change. "
            "What is asked for on the command line wins over what was saved.",
            show_default=False,
        ),
    ] = None,
    sampling: SamplingOptions,
    drafting: DraftingOptions,
    past: HistoryOptions,
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
    cnv: Annotated[bool, typer.Option("-cnv", hidden=True)] = False,  # what this command does
) -> None:
    """Talk with a model. /help lists the commands; a pipe gives one message per line."""
    loaded = loading.load()
    if past.clear_history:
        loaded.history_file.clear()
        return
    first = texts.first_text()
    params = sampling.params(loaded.tokenizer)
    system = telling.prompt(texts)
    talk = loaded.chat(
        system,
        sampling=params,
        speculation=drafting.speculation(past.of(loaded)),
        max_tokens=token_limit(max_tokens),
        on_full=on_full,
        stop=texts.stops,
        on_prefill=PrefillProgress(),
        chat_template=chat_template,
        template_variables=template_variables(variables),
    )
    settings = Settings(talk, loaded.tokenizer)
    if conversation is not None and _exists(conversation):
        asked, mine = given(context), (talk.max_tokens, talk.stop, talk.on_full)
        load_with_notes(talk, conversation)
        talk.sampling = sampling.over(talk.sampling, params, asked)
        if system is not None:
            talk.system = system
        for name, value in zip(("max_tokens", "stop", "on_full"), mine, strict=True):
            if name in asked:
                setattr(talk, name, value)
    _refer(talk, drafting.reference or ())
    if stats:
        note_engine(loaded)
        note_seed(talk.sampling)
    view = View(
        color=wants_color(color, sys.stdout),
        thinking=not hide_thinking,
        stats=stats,
        as_json=as_json,
    )
    reader = _reader(first, single_turn=single_turn)
    loop = Repl(
        talk,
        reader,
        sys.stdout,
        view,
        autosave=conversation,
        single_turn=single_turn,
        settings=settings,
    )
    if status := loop.run(first):
        raise typer.Exit(status)


def _reader(first: str | None, *, single_turn: bool) -> LineReader:
    source = standard_input()
    if not sys.stdin.isatty():
        return PipeReader(source)
    if not (single_turn and first is not None):
        note("/help lists the commands, Ctrl-D leaves")
    return TerminalReader()


def _exists(conversation: Path) -> bool:
    """Whether there is something to go on with; what is wrong with it, reading it will tell.

    Raises:
        InvalidArgumentError: there is none, and none could be made.
    """
    try:
        os.stat(conversation)
    except FileNotFoundError:
        folder = Path(os.path.realpath(conversation)).parent
        if not folder.is_dir():
            raise InvalidArgumentError(
                f"--conversation {conversation}: there is no folder {folder}"
            ) from None
        return False
    except (OSError, ValueError):
        return True
    return True


def _refer(talk: Conversation, references: Sequence[Path]) -> None:
    """Draft from these too, if the conversation does not already."""
    known = {known.absolute() for known in talk.references if isinstance(known, Path)}
    for reference in references:
        if reference.absolute() not in known:
            talk.add_reference(reference)
