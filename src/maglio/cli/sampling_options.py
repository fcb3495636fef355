"""How tokens are chosen, as options: llama.cpp's names and their special values."""

from __future__ import annotations

import dataclasses
import math
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from maglio.cli.options import SAMPLING
from maglio.decode import SamplingParams
from maglio.errors import InvalidArgumentError
from maglio.text import Tokenizer

_BIAS = re.compile(r"(\d{1,10})([+-].+)", re.ASCII)
RANDOM_SEED = -1
"""Stands for a seed that is drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """The options; fields that are named as those of :class:`SamplingParams` mean the same."""

    temperature: Annotated[
        float,
        typer.Option("--temp", "--temperature", help="0 is greedy.", rich_help_panel=SAMPLING),
    ] = 0.0
    top_k: Annotated[
        int, typer.Option("--top-k", help="0 and below: off.", rich_help_panel=SAMPLING)
    ] = 0
    top_p: Annotated[float, typer.Option("--top-p", help="1 is off.", rich_help_panel=SAMPLING)] = (
        1.0
    )
    min_p: Annotated[float, typer.Option("--min-p", help="0 is off.", rich_help_panel=SAMPLING)] = (
        0.0
    )
    repeat_penalty: Annotated[
        float, typer.Option("--repeat-penalty", help="1 is off.", rich_help_panel=SAMPLING)
    ] = 1.0
    frequency_penalty: Annotated[
        float, typer.Option("--frequency-penalty", help="0 is off.", rich_help_panel=SAMPLING)
    ] = 0.0
    presence_penalty: Annotated[
        float, typer.Option("--presence-penalty", help="0 is off.", rich_help_panel=SAMPLING)
    ] = 0.0
    penalty_last_n: Annotated[
        int,
        typer.Option(
            "--repeat-last-n",
            help="Tokens that penalties look back on; -1: all of them, 0: none.",
            rich_help_panel=SAMPLING,
        ),
    ] = -1
    logit_bias: Annotated[
        list[str] | None,
        typer.Option(
            "--logit-bias",
            "-l",
            metavar="ID+BIAS",
            help="Make a token id likelier (15043+1) or less likely (15043-1; 15043-inf: never). "
            "Repeatable.",
            rich_help_panel=SAMPLING,
            show_default=False,
        ),
    ] = None
    ignore_eos: Annotated[
        bool,
        typer.Option("--ignore-eos", help="Never choose an end token.", rich_help_panel=SAMPLING),
    ] = False
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            "-s",
            help="Random seed. Default, and what -1 stands for: another one in each run, which "
            "--stats shows.",
            rich_help_panel=SAMPLING,
            show_default=False,
        ),
    ] = None

    def params(self, tokenizer: Tokenizer) -> SamplingParams:
        """The parameters, for a model with this tokenizer; draws a seed where none is named.

        Raises:
            InvalidArgumentError: an option can never work.
        """
        return SamplingParams(
            temperature=self.temperature,
            top_k=max(0, self.top_k),
            top_p=self.top_p,
            min_p=self.min_p,
            repeat_penalty=self.repeat_penalty,
            frequency_penalty=self.frequency_penalty,
            presence_penalty=self.presence_penalty,
            penalty_last_n=self.penalty_last_n,
            logit_bias=self._biases(tokenizer),
            seed=drawn_seed() if self.seed in (None, RANDOM_SEED) else self.seed or 0,
        )

    def over(
        self, saved: SamplingParams, mine: SamplingParams, names: Collection[str]
    ) -> SamplingParams:
        """``saved``, with the options called ``names`` as in ``mine``, which these options gave."""
        names = {"logit_bias" if name == "ignore_eos" else name for name in names}
        known = {field.name for field in dataclasses.fields(SamplingParams)}
        changes: dict[str, Any] = {name: getattr(mine, name) for name in names & known}
        return dataclasses.replace(saved, **changes)

    def _biases(self, tokenizer: Tokenizer) -> dict[int, float]:
        biases = dict(map(bias, self.logit_bias or ()))
        if self.ignore_eos:
            biases |= dict.fromkeys(tokenizer.eog_ids, -math.inf)
        return biases


def drawn_seed() -> int:
    """A fresh seed, short enough to be typed again."""
    return secrets.randbits(32)


def bias(option: str) -> tuple[int, float]:
    """A token id and its bias, from ``ID+BIAS`` or ``ID-BIAS``.

    Raises:
        InvalidArgumentError: it is something else.
    """
    parsed = _BIAS.fullmatch(option)
    try:
        return int(parsed[1]), float(parsed[2])  # type: ignore[index]
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            f"a logit bias is {option!r:.80}, must be a token id and a bias, such as 15043+1.5 or "
            "15043-inf"
        ) from None
