"""Which model to load, and how: the options that all commands with a model share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import maglio
from maglio.cli.model_choice import ModelChoice
from maglio.cli.options import KvCacheOption, ThreadsOption, thread_count
from maglio.cli.terminal import LoadProgress
from maglio.engine.registry import MOST_CONTEXT, engine_for
from maglio.gguf import ModelFile

_DEFAULT_CONTEXT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions(ModelChoice):
    """The model and its size in memory."""

    n_ctx: Annotated[
        int,
        typer.Option(
            "--ctx-size",
            "-c",
            "--n-ctx",
            help="Context length in tokens; 0: all that the model was trained for.",
            min=0,
        ),
    ] = _DEFAULT_CONTEXT
    threads: ThreadsOption = None
    cache_weights: Annotated[
        bool,
        typer.Option(
            "--cache-weights",
            help="Keep the repacked weights on disk, about as large as the model, and load faster.",
        ),
    ] = False
    kv_cache: KvCacheOption = "f16"

    def load(self) -> maglio.Model:
        """Load it. Raises as :func:`maglio.load` does."""
        path = self.find()
        n_ctx = self.n_ctx or _whole_context(path)
        with LoadProgress() as progress:
            return maglio.load(
                path,
                n_ctx=n_ctx,
                threads=thread_count(self.threads),
                kv_cache=self.kv_cache,
                cache=self.cache_weights,
                on_load=progress,
            )


def _whole_context(path: Path) -> int:
    if engine_for(path) != "native":
        return MOST_CONTEXT  # the engine cuts it to what its model was trained for
    file = ModelFile(path)
    architecture = file.text("general.architecture")
    return file.integer(f"{architecture}.context_length", _DEFAULT_CONTEXT)
