"""``maglio generate``: text in, the model's continuation out."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

import maglio
from maglio.cli.options import (
    DRAFTING,
    OUTPUT,
    SAMPLING,
    ColorOption,
    ContextOption,
    MinPOption,
    ModelOption,
    PolicyName,
    RepeatPenaltyOption,
    SeedOption,
    TemperatureOption,
    ThreadsOption,
    TopKOption,
    TopPOption,
)
from maglio.cli.terminal import (
    PrefillProgress,
    TokenWriter,
    details,
    summary,
    wants_color,
)
from maglio.errors import InvalidArgumentError
from maglio.generation import Stream
from maglio.references import read_reference


def generate(
    prompt: Annotated[
        str | None,
        typer.Option(
            "--prompt", "-p", help="Text to continue; '-' reads stdin.", show_default=False
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="Read the prompt from a file.", show_default=False),
    ] = None,
    model: ModelOption = None,
    max_tokens: Annotated[
        int,
        typer.Option("--max-tokens", "-n", "--gen", "--predict", help="Most tokens to generate."),
    ] = 128,
    stop: Annotated[
        list[str] | None,
        typer.Option("--stop", help="End before this text. Repeatable.", show_default=False),
    ] = None,
    n_ctx: ContextOption = 4096,
    threads: ThreadsOption = None,
    temperature: TemperatureOption = 0.0,
    top_k: TopKOption = 0,
    top_p: TopPOption = 1.0,
    min_p: MinPOption = 0.0,
    repeat_penalty: RepeatPenaltyOption = 1.0,
    frequency_penalty: Annotated[
        float, typer.Option("--frequency-penalty", help="0 is off.", rich_help_panel=SAMPLING)
    ] = 0.0,
    presence_penalty: Annotated[
        float, typer.Option("--presence-penalty", help="0 is off.", rich_help_panel=SAMPLING)
    ] = 0.0,
    penalty_last_n: Annotated[
        int,
        typer.Option(
            "--repeat-last-n",
            help="Tokens that penalties look back on; -1 is all of them.",
            rich_help_panel=SAMPLING,
        ),
    ] = -1,
    seed: SeedOption = 0,
    spec: Annotated[
        bool,
        typer.Option(
            "--spec/--no-spec",
            help="Draft and verify. The text is the same either way.",
            rich_help_panel=DRAFTING,
        ),
    ] = True,
    max_draft: Annotated[
        int,
        typer.Option("--max-draft", help="Most draft tokens per step.", rich_help_panel=DRAFTING),
    ] = 16,
    policy: Annotated[
        PolicyName,
        typer.Option("--policy", help="How drafts are cut.", rich_help_panel=DRAFTING),
    ] = "calibrated",
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
    color: ColorOption = "auto",
    stats: Annotated[
        bool, typer.Option("--stats", help="Details on stderr.", rich_help_panel=OUTPUT)
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="One JSON document on stdout.", rich_help_panel=OUTPUT),
    ] = False,
) -> None:
    """Continue a text with a model."""
    text = _read_prompt(prompt, file)
    loaded = maglio.load(model, n_ctx=n_ctx, threads=threads)
    stream = loaded.stream(
        text,
        max_tokens=max_tokens,
        sampling=maglio.SamplingParams(
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repeat_penalty=repeat_penalty,
            frequency_penalty=frequency_penalty,
            presence_penalty=presence_penalty,
            penalty_last_n=penalty_last_n,
            seed=seed,
        ),
        speculation=maglio.Speculation(max_draft=max_draft, source=policy) if spec else False,
        references=[read_reference(path, loaded.tokenizer) for path in reference or ()],
        stop=stop or (),
        on_prefill=PrefillProgress(),
    )
    writer = None if as_json else TokenWriter(sys.stdout, color=wants_color(color, sys.stdout))
    interrupted = _write(stream, writer)
    if as_json:
        print(json.dumps(_document(stream)))
    print(summary(stream.stats), file=sys.stderr)
    if stats:
        print(details(stream.stats), file=sys.stderr)
    if interrupted:
        raise typer.Exit(130)


def _read_prompt(prompt: str | None, file: Path | None) -> str:
    if (prompt is None) == (file is None):
        raise InvalidArgumentError("give the prompt with either --prompt or --file")
    if file is not None and str(file) != "-":
        try:
            data = file.read_bytes()
        except OSError as error:
            raise InvalidArgumentError(f"cannot read {file}: {error.strerror}") from error
        return data.decode("utf-8", "surrogateescape")
    if file is not None or prompt == "-":
        return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    return prompt or ""


def _write(stream: Stream, writer: TokenWriter | None) -> bool:
    """Write tokens as they come; True when Ctrl-C ended it."""
    shown = 0
    interrupted = False
    try:
        for token in stream:
            if writer is not None:
                writer.write(token.text, token.source)
                shown += len(token.text)
    except KeyboardInterrupt:
        interrupted = True
    stream.close()
    if writer is not None:
        rest = stream.text[shown:]
        writer.write(rest if stream.text.endswith("\n") else rest + "\n", "model")
    return interrupted


def _document(stream: Stream) -> dict[str, object]:
    counts = stream.stats
    return {
        "text": stream.text,
        "tokens": list(stream.tokens),
        "finish_reason": stream.finish_reason,
        "stats": {
            **{
                field.name: getattr(counts, field.name)
                for field in dataclasses.fields(counts)
                if field.name != "sources"
            },
            "acceptance_rate": counts.acceptance_rate,
            "tokens_per_step": counts.tokens_per_step,
            "prompt_tokens_per_s": counts.prompt_tokens_per_s,
            "tokens_per_s": counts.tokens_per_s,
            "sources": {
                name: dataclasses.asdict(source) for name, source in counts.sources.items()
            },
        },
    }
