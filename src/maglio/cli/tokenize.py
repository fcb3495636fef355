"""``maglio tokenize``: the token ids of a text, one per line, to compare with other tools."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Literal

import typer

from maglio.cli.llama_vocabulary import llama_ids
from maglio.cli.model_choice import ModelChoice
from maglio.cli.option_groups import with_option_groups
from maglio.cli.options import (
    ChatTemplateOption,
    TemplateVariablesOption,
    template_variables,
)
from maglio.cli.text_options import read_bytes, without_bom
from maglio.gguf import ModelFile
from maglio.native_model import read_chat_template, read_tokenizer
from maglio.text import ChatTemplate, Tokenizer
from maglio.text.template import Message

_CONTEXT = 4  # tokens shown on either side of a difference


@with_option_groups
def tokenize(
    *,
    file: Annotated[Path, typer.Argument(help="Text file; '-' reads stdin.", show_default=False)],
    choice: ModelChoice,
    special: Annotated[
        bool,
        typer.Option(
            "--special/--no-special", help="Add the BOS and EOS tokens the model asks for."
        ),
    ] = True,
    parse_special: Annotated[
        bool,
        typer.Option("--parse-special", help="Read control tokens spelled out in the text."),
    ] = False,
    chat: Annotated[
        bool,
        typer.Option(
            "--chat",
            help="Render with the chat template: a JSON list of messages, or the text of one. "
            "Shows the prompt on stderr, and ids with their text.",
        ),
    ] = False,
    chat_template: ChatTemplateOption = None,
    variables: TemplateVariablesOption = None,
    against: Annotated[
        Literal["llama.cpp"] | None,
        typer.Option("--against", help="Compare with this tokenizer.", show_default=False),
    ] = None,
) -> None:
    """Print the token ids of a text, one per line."""
    path = choice.find()
    model_file = ModelFile(path)
    tokenizer = read_tokenizer(model_file)
    data = without_bom(read_bytes(file))
    if chat:
        template = ChatTemplate(read_chat_template(model_file), tokenizer)
        rendered = template.render(
            _messages(data), variables=template_variables(variables), name=chat_template
        )
        ids = template.encode(rendered)
        text = rendered.text
        print(text, file=sys.stderr)
        sys.stdout.writelines(f"{i}\t{_shown(tokenizer, i)}\n" for i in ids)
        data, parse_special = text.encode("utf-8", "surrogateescape"), True
        # As we do: one BOS token, the template's or the tokenizer's.
        special = not (template.bos_text and text.startswith(template.bos_text))
    else:
        ids = tokenizer.encode(data, add_special=special, parse_special=parse_special)
        sys.stdout.writelines(f"{token}\n" for token in ids)
    if against is not None:
        theirs = llama_ids(path, data, add_special=special, parse_special=parse_special)
        _compare(tokenizer, ids, theirs)


def _messages(data: bytes) -> Sequence[Message]:
    """A JSON list of objects as it is; anything else as what a user says."""
    try:
        messages = json.loads(data)
    except (ValueError, RecursionError):
        messages = None
    if isinstance(messages, list) and all(isinstance(message, dict) for message in messages):
        return messages
    return [{"role": "user", "content": data.decode("utf-8", "surrogateescape")}]


def _compare(tokenizer: Tokenizer, ours: Sequence[int], theirs: Sequence[int]) -> None:
    """Say whether the ids are the same; the first difference, with its surroundings, if not."""
    if list(ours) == list(theirs):
        print(f"the same {len(ours)} tokens as llama.cpp", file=sys.stderr)
        return
    pairs = zip_longest(ours, theirs)
    at = next(i for i, (mine, other) in enumerate(pairs) if mine != other)
    print(
        f"different from llama.cpp at token {at} (of {len(ours)}, llama.cpp {len(theirs)})",
        file=sys.stderr,
    )
    for name, ids in (("maglio", ours), ("llama.cpp", theirs)):
        print(f"{name}:", file=sys.stderr)
        for i in range(max(0, at - _CONTEXT), min(len(ids), at + _CONTEXT + 1)):
            arrow = ">" if i == at else " "
            print(f" {arrow} {i}\t{ids[i]}\t{_shown(tokenizer, ids[i])}", file=sys.stderr)
    raise typer.Exit(1)


def _shown(tokenizer: Tokenizer, token: int) -> str:
    return json.dumps(tokenizer.token_bytes(token).decode("utf-8", "replace"), ensure_ascii=False)
