"""``maglio generate``: text in, the model's continuation out."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Annotated

import typer

import maglio
from maglio.cli.drafting_options import DraftingOptions
from maglio.cli.model_options import ModelOptions
from maglio.cli.option_groups import with_option_groups
from maglio.cli.options import OUTPUT, ColorOption, MaxTokensOption, token_limit
from maglio.cli.sampling_options import SamplingOptions
from maglio.cli.streams import emit, note
from maglio.cli.terminal import (
    PrefillProgress,
    TokenWriter,
    details,
    note_engine,
    note_seed,
    summary,
    wants_color,
)
from maglio.cli.text_options import TextOptions
from maglio.engine.base import Engine
from maglio.errors import InvalidArgumentError
from maglio.generation import Stream
from maglio.prompt import Prompt, encoded
from maglio.references import read_reference


@with_option_groups
def generate(
    *,
    texts: TextOptions,
    special: Annotated[
        bool,
        typer.Option(
            "--special", "-sp", help="Read control tokens, such as <|im_end|>, in the prompt."
        ),
    ] = False,
    loading: ModelOptions,
    max_tokens: MaxTokensOption = 128,
    sampling: SamplingOptions,
    drafting: DraftingOptions,
    display_prompt: Annotated[
        bool,
        typer.Option(
            "--display-prompt/--no-display-prompt",
            help="Write the prompt before its continuation.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    color: ColorOption = "auto",
    stats: Annotated[
        bool, typer.Option("--stats", help="Details on stderr.", rich_help_panel=OUTPUT)
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="One JSON document on stdout.", rich_help_panel=OUTPUT),
    ] = False,
    no_conversation: Annotated[
        bool, typer.Option("--no-conversation", "-no-cnv", hidden=True)
    ] = False,  # llama.cpp's way to ask for what this command does
) -> None:
    """Continue a text with a model."""
    text = texts.first_text()
    if text is None:
        raise InvalidArgumentError("give the prompt with either --prompt or --file")
    loaded = loading.load()
    params = sampling.params(loaded.tokenizer)
    stream = loaded.stream(
        _prompt(loaded, text, special=special),
        max_tokens=token_limit(max_tokens),
        sampling=params,
        speculation=drafting.speculation(),
        references=[read_reference(path, loaded.tokenizer) for path in drafting.reference or ()],
        stop=texts.stops,
        on_prefill=PrefillProgress(),
    )
    writer = None if as_json else TokenWriter(sys.stdout, color=wants_color(color, sys.stdout))
    if writer is not None and display_prompt:
        writer.write(text, "model")
    interrupted = _write(stream, writer)
    if as_json:
        document = _document(stream, params.seed, loaded.engine)
        emit(sys.stdout, json.dumps(document) + "\n")
    note(summary(stream.stats))
    if stats:
        note(details(stream.stats))
        note_engine(loaded)
        note_seed(params)
    if interrupted:
        raise typer.Exit(130)


def _prompt(model: maglio.Model, text: str, *, special: bool) -> Prompt:
    if not special:
        return text
    sizes = {"n_vocab": model.engine.n_vocab, "n_ctx": model.engine.n_ctx}
    return encoded(text, model.tokenizer, **sizes, parse_special=True)


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


def _document(stream: Stream, seed: int, engine: Engine) -> dict[str, object]:
    counts = stream.stats
    return {
        "text": stream.text,
        "tokens": list(stream.tokens),
        "finish_reason": stream.finish_reason,
        "seed": seed,
        "engine": {"name": engine.name, "exactness": engine.exactness},
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
