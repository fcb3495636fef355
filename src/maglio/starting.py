"""From a request to a generation that is ready to run.

Boundary: sets up what a generation needs of a model. It runs no forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from maglio.decode import MarginGuard, Picker, SamplingParams
from maglio.decode import Sequence as TokenSequence
from maglio.draft.cascade import Cascade
from maglio.draft.prediction import PredictedText
from maglio.draft.source import DraftSource
from maglio.engine.base import Cache, Engine
from maglio.errors import InvalidArgumentError
from maglio.generation import Reading, Started
from maglio.grammar import GrammarCompiler
from maglio.prompt import Prompt, encoded
from maglio.references import Reference, each, index_reference
from maglio.request import Request
from maglio.speculation import Drafting, DraftingSetup, Speculation
from maglio.text import Tokenizer
from maglio.tokens import checked_tokens


class StreamModel(Protocol):
    """What a generation needs of a model; :class:`maglio.Model` has it."""

    drafting: DraftingSetup
    grammars: GrammarCompiler

    @property
    def engine(self) -> Engine:
        """Computes logits."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """Text to token ids and back."""
        ...

    def margin_guard(self, picker: Picker) -> MarginGuard | None:
        """What keeps rounding from changing the picker's choices, where that is wanted."""
        ...


def start(model: StreamModel, request: Request, *, cache: Cache | None = None) -> Started:
    """Begin a generation.

    Args:
        model: the model.
        request: what to generate.
        cache: a new cache of the model's engine that holds a beginning of the prompt, without its
            last token, or nothing. An empty one when ``None``.

    Raises:
        InvalidArgumentError: a value in the request can never work.
        GrammarError: the grammar cannot be compiled.
        OutOfMemoryError: a reference is too large to index.
        ContextFullError: the prompt is longer than the context.
    """
    n_vocab = model.engine.n_vocab
    ids = prompt_ids(model, request.prompt)
    sampling = SamplingParams() if request.sampling is None else request.sampling
    drafting = start_drafting(model, request.speculation, sampling, request.references)
    if request.prediction is not None:
        expected = _expected(model, request.prediction)
        if drafting.drafter is not None:
            _cascade(drafting.drafter.source, "a prediction").predict(expected, begin=len(ids))
    constraint = None if request.grammar is None else model.grammars.start(request.grammar)
    control, ends = model.tokenizer.control_tokens.values(), model.tokenizer.eog_ids
    picker = Picker(sampling, n_vocab, exempt=control, ends=ends)
    cache = model.engine.new_cache() if cache is None else cache
    known = cache.length
    sequence = TokenSequence(
        cache,
        picker,
        drafting.drafter,
        n_ctx=model.engine.n_ctx,
        tokens=ids[:known],
        guard=model.margin_guard(picker),
    )
    reading = Reading(
        sequence,
        model.tokenizer,
        ids[known:],
        request.ending,
        show_control=request.show_control,
        constraint=constraint,
        logprobs=request.logprobs,
    )

    def remember() -> None:
        if drafting.history is not None:
            drafting.history.add(sequence.tokens)

    return Started(reading, drafting.cost, remember)


def start_drafting(
    model: StreamModel,
    speculation: bool | Speculation,
    sampling: SamplingParams,
    references: Sequence[Reference],
) -> Drafting:
    """Set up drafting for a new stream.

    Raises:
        InvalidArgumentError: an argument can never work.
        OutOfMemoryError: a reference is too large to index.
    """
    drafting = model.drafting.start(speculation, sampling)
    documents = each(references)
    if drafting.drafter is not None and len(documents) > 0:
        source = _cascade(drafting.drafter.source, "references")
        for document in documents:
            source.add_reference(index_reference(document, model.tokenizer))
    return drafting


def prompt_ids(model: StreamModel, prompt: Prompt) -> list[int]:
    """Return the ids of a prompt; see :func:`maglio.prompt.encoded`."""
    return encoded(prompt, model.tokenizer, n_vocab=model.engine.n_vocab, n_ctx=model.engine.n_ctx)


def _expected(
    model: StreamModel, prediction: Prompt | PredictedText
) -> Sequence[int] | PredictedText:
    """A prediction as what a cascade takes."""
    if isinstance(prediction, PredictedText):
        return prediction
    if isinstance(prediction, str):
        return model.tokenizer.encode(prediction, add_special=False)
    return checked_tokens("prediction", prediction, model.engine.n_vocab)


def _cascade(source: DraftSource, what: str) -> Cascade:
    if isinstance(source, Cascade):
        return source
    raise InvalidArgumentError(
        f"the built-in sources draft from {what}; give either {what} or a source of your own"
    )
