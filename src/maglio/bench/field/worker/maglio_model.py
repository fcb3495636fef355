"""Maglio, on any of its engines. Unlike its neighbours, this module needs Maglio itself."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import maglio
from maglio._core import FrozenAutomaton
from maglio.gguf import ModelFile
from maglio.native_model import read_tokenizer
from maglio.references import index_reference

from .message import Answer, Request, Setup


def open_contestant(setup: Setup) -> MaglioModel:
    """Load the model."""
    return MaglioModel(setup)


class MaglioModel:
    """A model, decoded plainly or speculatively.

    Streams do not draft from earlier ones: a prompt comes several times, and its own answer would
    be found there.
    """

    def __init__(self, setup: Setup) -> None:
        self._model = _load(setup, setup.settings["engine"])
        plain = setup.method == "plain"
        self._speculation = False if plain else maglio.Speculation(history=False)
        self._indexes: dict[str, FrozenAutomaton] = {}

    def answer(self, request: Request) -> Answer:
        """Answer one prompt. References are indexed once, before the clock runs."""
        drafts = self._speculation is not False
        grammar = None
        if request.schema is not None:
            grammar = maglio.Grammar.json_schema(request.schema)
        asked = maglio.Request(
            prompt=list(request.prompt),
            max_tokens=request.max_tokens,
            sampling=maglio.SamplingParams(temperature=request.temperature, seed=request.seed),
            speculation=self._speculation,
            references=[self._index(text) for text in request.references] if drafts else (),
            prediction=request.prediction if drafts else None,
            stop_tokens=list(request.ends),
            grammar=grammar,
        )
        begin = first = last = time.perf_counter()
        stream = self._model.stream(asked)
        for number, _ in enumerate(stream):
            last = time.perf_counter()
            if number == 0:
                first = last
        stats = stream.stats
        return Answer(
            tokens=stream.tokens,
            first_token_s=first - begin,
            decode_s=last - first,
            steps=max(0, stats.steps - 1),
            drafted=stats.drafted,
            accepted=stats.accepted,
        )

    def _index(self, text: str) -> FrozenAutomaton:
        if text not in self._indexes:
            self._indexes[text] = index_reference(text, self._model.tokenizer)
        return self._indexes[text]


def _load(setup: Setup, engine: str) -> maglio.Model:
    if engine != "transformers":
        return maglio.load(setup.model, engine=engine, n_ctx=setup.n_ctx, threads=setup.threads)
    # The checkpoint has no tokenizer: the library would not read the whole of it.
    import torch

    from maglio.engine.transformers import TransformersEngine

    from .transformers_model import read_checkpoint

    torch.set_num_threads(setup.threads)
    model: Any = read_checkpoint(setup.checkpoint)
    tokenizer = read_tokenizer(ModelFile(Path(setup.model)))
    return maglio.Model(TransformersEngine(model, n_ctx=setup.n_ctx), tokenizer)
