"""Which model to load, and how: the options that all commands with a model share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import maglio
from maglio.cli.engine_options import EngineOptions
from maglio.engine.registry import MOST_CONTEXT, engine_for
from maglio.gguf import ModelFile

_DEFAULT_CONTEXT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions(EngineOptions):
    """The model, its engine, and its size in memory."""

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
    cache_weights: Annotated[
        bool,
        typer.Option(
            "--cache-weights",
            help="Keep the repacked weights on disk, about as large as the model, and load faster.",
        ),
    ] = False

    def load(self) -> maglio.Model:
        """Load it. Raises as :func:`maglio.load` does."""
        path = self.find()
        n_ctx = self.n_ctx or self._whole_context(path)
        more = {"cache": True} if self.cache_weights else {}
        return self.open(path, n_ctx=n_ctx, **more)

    def _whole_context(self, path: Path) -> int:
        engine = engine_for(path) if self.engine == "auto" else self.engine
        if engine != "native":
            return MOST_CONTEXT  # the engine cuts it to what its model was trained for
        file = ModelFile(path)
        architecture = file.text("general.architecture")
        return file.integer(f"{architecture}.context_length", _DEFAULT_CONTEXT)
