"""How tokens are chosen, as options: llama.cpp's names and their special values."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from maglio.cli.options import SAMPLING
from maglio.cli.text_options import unescape
from maglio.decode import SamplingParams
from maglio.decode.order import ORDERS
from maglio.errors import InvalidArgumentError
from maglio.llama_sampling import (
    RANDOM_SEED,
    SAME,
    Breaker,
    breakers,
    default_breakers,
    drawn_seed,
    order_of_letters,
    order_of_names,
)
from maglio.text import Tokenizer

_BIAS = re.compile(r"(\d{1,10})([+-].+)", re.ASCII)
_GIVES = {"sampling_seq": "order"}  # options that are named otherwise than what they give


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """The options; fields that are named as those of :class:`SamplingParams` mean the same."""

    temperature: Annotated[
        float,
        typer.Option(
            "--temp",
            "--temperature",
            help="0 is greedy. Before the filters here, after them in llama.cpp: see --samplers.",
            rich_help_panel=SAMPLING,
        ),
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
    typical_p: Annotated[
        float,
        typer.Option("--typical", "--typical-p", help="1 is off.", rich_help_panel=SAMPLING),
    ] = 1.0
    top_n_sigma: Annotated[
        float,
        typer.Option(
            "--top-nsigma", "--top-n-sigma", help="0 and below: off.", rich_help_panel=SAMPLING
        ),
    ] = 0.0
    xtc_probability: Annotated[
        float,
        typer.Option(
            "--xtc-probability",
            help="How often the most probable tokens are dropped; 0 is off.",
            rich_help_panel=SAMPLING,
        ),
    ] = 0.0
    xtc_threshold: Annotated[
        float,
        typer.Option(
            "--xtc-threshold",
            help="XTC drops all tokens that are at least so probable, but the last of them.",
            rich_help_panel=SAMPLING,
        ),
    ] = 0.1
    min_keep: Annotated[
        int,
        typer.Option(
            "--min-keep",
            help="Tokens that each filter but --top-k leaves at least.",
            rich_help_panel=SAMPLING,
        ),
    ] = 1
    order: Annotated[
        str,
        typer.Option(
            "--samplers",
            metavar="ORDER",
            help="'default': the temperature before the filters, as in transformers and vLLM; "
            "'llama.cpp': the temperature last; or steps such as 'top_k;min_p;temperature'.",
            rich_help_panel=SAMPLING,
        ),
    ] = "default"
    sampling_seq: Annotated[
        str | None,
        typer.Option(
            "--sampling-seq",
            "--sampler-seq",
            metavar="LETTERS",
            help="The order in llama.cpp's letters, such as edskypmxt.",
            rich_help_panel=SAMPLING,
            show_default=False,
        ),
    ] = None
    repeat_penalty: Annotated[
        float, typer.Option("--repeat-penalty", help="1 is off.", rich_help_panel=SAMPLING)
    ] = 1.0
    frequency_penalty: Annotated[
        float,
        typer.Option(
            "--frequency-penalty", help="About the answer; 0 is off.", rich_help_panel=SAMPLING
        ),
    ] = 0.0
    presence_penalty: Annotated[
        float,
        typer.Option(
            "--presence-penalty", help="About the answer; 0 is off.", rich_help_panel=SAMPLING
        ),
    ] = 0.0
    penalty_last_n: Annotated[
        int,
        typer.Option(
            "--repeat-last-n",
            help="Tokens that --repeat-penalty looks back on, prompt included; -1: all of them, "
            "0: none.",
            rich_help_panel=SAMPLING,
        ),
    ] = 64
    dry_multiplier: Annotated[
        float,
        typer.Option(
            "--dry-multiplier",
            help="How much to lower what would go on with a repetition; 0 is off.",
            rich_help_panel=SAMPLING,
        ),
    ] = 0.0
    dry_base: Annotated[
        float,
        typer.Option(
            "--dry-base",
            help="How much more so for each further token of the repetition.",
            rich_help_panel=SAMPLING,
        ),
    ] = 1.75
    dry_allowed_length: Annotated[
        int,
        typer.Option(
            "--dry-allowed-length",
            help="Tokens from which on it is one.",
            rich_help_panel=SAMPLING,
        ),
    ] = 2
    dry_penalty_last_n: Annotated[
        int,
        typer.Option(
            "--dry-penalty-last-n",
            help="Tokens that DRY looks back on, prompt included; -1: all of them, 0: none.",
            rich_help_panel=SAMPLING,
        ),
    ] = -1
    dry_breakers: Annotated[
        list[str] | None,
        typer.Option(
            "--dry-sequence-breaker",
            metavar="TEXT",
            help="No repetition reaches over this text, instead of a newline, ':', "
            "'\"' and '*'; 'none': over control tokens alone. Repeatable.",
            rich_help_panel=SAMPLING,
            show_default=False,
        ),
    ] = None
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
            **{name: getattr(self, name) for name in (*SAME, "penalty_last_n")},
            top_k=max(0, self.top_k),
            top_n_sigma=max(0.0, self.top_n_sigma),
            min_keep=max(1, self.min_keep),
            order=self._order(),
            dry_breakers=self._breakers(tokenizer),
            logit_bias=dict(map(bias, self.logit_bias or ())),
            seed=drawn_seed() if self.seed in (None, RANDOM_SEED) else self.seed or 0,
        )

    def over(
        self, saved: SamplingParams, mine: SamplingParams, names: Collection[str]
    ) -> SamplingParams:
        """``saved``, with the options called ``names`` as in ``mine``, which these options gave."""
        names = {_GIVES.get(name, name) for name in names}
        if "dry_multiplier" in names and not saved.dry_breakers:
            names.add("dry_breakers")
        known = {field.name for field in dataclasses.fields(SamplingParams)}
        changes: dict[str, Any] = {name: getattr(mine, name) for name in names & known}
        return dataclasses.replace(saved, **changes)

    def _order(self) -> str | tuple[str, ...]:
        if self.sampling_seq is None:
            return order(self.order)
        if self.order != "default":
            raise InvalidArgumentError("give the order once: --samplers or --sampling-seq")
        return order_of_letters(self.sampling_seq)

    def _breakers(self, tokenizer: Tokenizer) -> tuple[Breaker, ...]:
        texts = self.dry_breakers
        if texts is None:
            return () if self.dry_multiplier == 0.0 else default_breakers(tokenizer)
        wanted = [unescape(text).encode(errors="surrogateescape") for text in texts]
        return breakers([text for text in wanted if text != b"none"], tokenizer)


def order(option: str) -> str | tuple[str, ...]:
    """An order of sampling: its name, or steps separated by semicolons, as llama.cpp spells them.

    Raises:
        InvalidArgumentError: a step has no name.
    """
    return order_of_names([option] if option in ORDERS else re.split("[;,]", option))


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
