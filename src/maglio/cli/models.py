"""``maglio models`` and ``maglio inspect``: what runs here, and what a file is."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from maglio.cli.model_choice import ModelChoice
from maglio.cli.option_groups import with_option_groups
from maglio.inspection import Inspection, Memory, inspect, supported
from maglio.kept_weights import MOST_BYTES, kept_files, kept_folder

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]

_WIDTH = 79
_MARGIN = 14
_EXAMPLE_POSITIONS = 4096


def models(as_json: JsonOption = False) -> None:
    """Print the models, formats and tokenizers that this build runs, and where weights are kept."""
    can, kept = supported(), kept_files()
    if as_json:
        files = [{"path": str(file.path), "bytes": file.bytes} for file in kept]
        weights = {"folder": str(kept_folder()), "files": files, "most_bytes": MOST_BYTES}
        print(json.dumps({**asdict(can), "kept_weights": weights}, ensure_ascii=False))
        return
    print("architectures")
    for architecture, text in can.architectures.items():
        _print_line(f"  {architecture}", [text], separator=" ")
    _print_line("formats", can.formats)
    _print_line("tokenizers", can.tokenizers)
    _print_line("cut by", can.pretokenizers)
    _print_line("KV caches", can.kv_caches)
    _print_line("processor", can.instruction_sets)
    number = f"{len(kept)} file{'s' if len(kept) != 1 else ''}"
    sizes = f"{_size(sum(file.bytes for file in kept))} of at most {_size(MOST_BYTES)}"
    _print_line("kept weights", [str(kept_folder()), number, sizes], separator=", ")


@with_option_groups
def inspect_file(
    *,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[MODEL]", help="The same as --model.", show_default=False),
    ] = None,
    choice: ModelChoice,
    as_json: JsonOption = False,
) -> None:
    """Print what a model file is and whether it runs here. Reads its header only.

    The exit status is 0 if it runs, and 1 if not.
    """
    seen = inspect(choice.find(file))
    if as_json:
        fields = {**asdict(seen), "path": str(seen.path), "runs": seen.runs}
        print(json.dumps(fields, ensure_ascii=False))
    else:
        _show(seen)
    if not seen.runs:
        raise typer.Exit(1)


def _show(seen: Inspection) -> None:
    tensors = sum(count.tensors for count in seen.formats)
    _print_line("model", filter(None, [seen.name, seen.architecture]), separator=", ")
    _print_line("file", [f"{seen.path}, {_size(seen.bytes)}, {tensors} tensors"], separator=" ")
    _print_line("parameters", [_count(seen.parameters)])
    _print_line("sizes", [f"{name} {n:,}" for name, n in seen.numbers.items()], separator=", ")
    formats = [f"{count.format} {_size(count.bytes)}" for count in seen.formats]
    _print_line("formats", formats, separator=", ")
    _print_line("tokenizer", [seen.tokenizer or "none", f"{seen.n_vocab:,} tokens"], separator=", ")
    _print_line("templates", seen.chat_templates or ["none"], separator=", ")
    if seen.memory is not None:
        _print_line("memory", _memory(seen.memory), separator=", ")
    for problem in seen.problems:
        _print_line("runs", [f"no: {problem}"])
    if seen.runs:
        _print_line("runs", ["yes"])


def _memory(memory: Memory) -> Iterable[str]:
    yield f"weights {_size(memory.weights)}"
    cache = memory.cache_once + memory.cache_per_token * _EXAMPLE_POSITIONS
    yield f"cache {_size(cache)} at {_EXAMPLE_POSITIONS:,} tokens"
    if memory.available is not None:
        yield f"available {_size(memory.available)}"


def _print_line(name: str, parts: Iterable[str], *, separator: str = " ") -> None:
    """A name and what there is to say of it, folded at the width of a terminal."""
    text = separator.join(parts)
    margin = " " * _MARGIN
    print(
        textwrap.fill(
            text,
            _WIDTH,
            initial_indent=f"{name:<{_MARGIN - 1}} ",
            subsequent_indent=margin,
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


def _size(n: float) -> str:
    return f"{n / 1e9:,.2f} GB" if n >= 1e9 else f"{n / 1e6:,.1f} MB"


def _count(n: int) -> str:
    return f"{n / 1e9:,.2f} billion" if n >= 10**9 else f"{n / 1e6:,.1f} million"
