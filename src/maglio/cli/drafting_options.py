"""How drafts are made, as options. They change speed and never what is said."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

import maglio
from maglio.cli.options import DRAFTING
from maglio.errors import InvalidArgumentError

PolicyName = Literal["calibrated", "record", "recycling"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftingOptions:
    """What every command that generates has."""

    spec: Annotated[
        bool,
        typer.Option(
            "--spec/--no-spec",
            help="Draft and verify. The text is the same either way.",
            rich_help_panel=DRAFTING,
        ),
    ] = True
    max_draft: Annotated[
        int,
        typer.Option(
            "--max-draft",
            "--draft-max",
            "--draft",
            help="Most draft tokens per step.",
            rich_help_panel=DRAFTING,
        ),
    ] = 16
    policy: Annotated[
        PolicyName,
        typer.Option("--policy", help="How drafts are made.", rich_help_panel=DRAFTING),
    ] = "calibrated"
    gate: Annotated[
        bool,
        typer.Option(
            "--gate/--no-gate",
            help="Draft only while it pays.",
            rich_help_panel=DRAFTING,
        ),
    ] = True
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
    ] = None

    def speculation(self, history: bool | maglio.History = True) -> bool | maglio.Speculation:
        """The same for the library; ``history`` are the earlier streams to draft from.

        Raises:
            InvalidArgumentError: an option can never work.
        """
        how = maglio.Speculation(
            source=self.policy, max_draft=self.max_draft, gate=self.gate, history=history
        )
        return how if self.spec else False


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions:
    """What a chat has besides: it generates more than once."""

    history: Annotated[
        bool,
        typer.Option(
            "--history/--no-history",
            help="Draft from earlier conversations of this run too, such as those before /clear.",
            rich_help_panel=DRAFTING,
        ),
    ] = True
    save_history: Annotated[
        bool,
        typer.Option(
            "--save-history",
            help="Keep the token ids of conversations on this machine and draft from earlier ones.",
            rich_help_panel=DRAFTING,
        ),
    ] = False
    clear_history: Annotated[
        bool,
        typer.Option(
            "--clear-history",
            help="Delete what --save-history has kept for this model, and leave.",
            rich_help_panel=DRAFTING,
        ),
    ] = False

    def of(self, model: maglio.Model) -> bool | maglio.History:
        """The history to draft from.

        Raises:
            InvalidArgumentError: two options contradict each other.
            IndexFileError: what was kept cannot be read.
        """
        if self.save_history and not self.history:
            raise InvalidArgumentError("give either --save-history or --no-history")
        if self.save_history:
            return maglio.History(store=model.history_file)
        return self.history
