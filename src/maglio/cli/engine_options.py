"""Which engine runs a model, and how: the options of all commands that load one.

Boundary: from options to :func:`maglio.load`. How long a context is, each command says itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import maglio
from maglio.cli.model_choice import ModelChoice
from maglio.cli.options import KvCacheOption, ThreadsOption, thread_count
from maglio.cli.terminal import LoadProgress
from maglio.engine.registry import UnknownOptionsError
from maglio.errors import InvalidArgumentError
from maglio.exact import Exact

_SPELLED = {"cache": "--cache-weights"}
"""Options of engines that have an option of the command line to themselves."""

_OWN = ("n_ctx", "threads", "kv_cache", "exact", "on_load", "engine", "path")
"""What ``--engine-option`` may not name, as other options say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions(ModelChoice):
    """The model, and the engine that runs it."""

    engine: Annotated[
        str,
        typer.Option(
            "--engine",
            metavar="ENGINE",
            help="native, transformers, llama.cpp, or one that another package brings; auto: the "
            "one for what the model is.",
        ),
    ] = "auto"
    engine_option: Annotated[
        list[str] | None,
        typer.Option(
            "--engine-option",
            "-eo",
            metavar="NAME=VALUE",
            help="An option that only this engine has, such as dtype=bfloat16. Repeatable.",
            show_default=False,
        ),
    ] = None
    exact: Annotated[
        Exact,
        typer.Option(
            "--exact",
            help="On engines whose rows depend on what is computed with them: accept it; guard: "
            "take close decisions from rows computed alone; require: refuse to run.",
        ),
    ] = "accept"
    threads: ThreadsOption = None
    kv_cache: KvCacheOption = "f16"

    def open(self, path: Path, *, n_ctx: int, **more: Any) -> maglio.Model:  # noqa: ANN401
        """Load the model at ``path`` and show how far that has come.

        Args:
            path: where :meth:`find` says the model is.
            n_ctx: context length of a stream in tokens.
            more: options of the engine, or instead of those that are fields.

        Raises:
            InvalidArgumentError: an option can never work, or the engine does not have it.
            MaglioError: as :func:`maglio.load` does.
        """
        given = {
            "threads": thread_count(self.threads),
            "kv_cache": self.kv_cache,
            **_options(self.engine_option or ()),
            **more,
        }
        try:
            with LoadProgress() as progress:
                return maglio.load(
                    path,
                    engine=self.engine,
                    n_ctx=n_ctx,
                    exact=self.exact,
                    on_load=progress,
                    **given,
                )
        except UnknownOptionsError as error:
            raise InvalidArgumentError(_refusal(error)) from None


def _options(words: Sequence[str]) -> dict[str, object]:
    """Options by name. A value is a number or true or false if it is written as one."""
    options: dict[str, object] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            raise InvalidArgumentError(
                f"--engine-option {word}: must be NAME=VALUE, such as dtype=bfloat16"
            )
        if name in _OWN or name in _SPELLED:
            raise InvalidArgumentError(
                f"--engine-option {word}: {name} has an option of its own; --help lists it"
            )
        if name in options:
            raise InvalidArgumentError(f"--engine-option {word}: {name} is given twice")
        options[name] = _value(value)
    return options


def _value(text: str) -> object:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, (bool, int, float)) else text


def _refusal(error: UnknownOptionsError) -> str:
    unknown = [_SPELLED.get(name, f"--engine-option {name}") for name in error.unknown]
    known = [name for name in error.known if name not in _OWN and name not in _SPELLED]
    has = f"--engine-option can name {', '.join(known)}" if known else "it has none of its own"
    return f"the engine {error.engine!r} does not have {', '.join(unknown)}; {has}"
