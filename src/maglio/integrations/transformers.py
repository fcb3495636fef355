"""Maglio's drafting inside ``model.generate`` of the transformers library.

    from maglio.integrations.transformers import maglio_generate

    model.generate(**inputs, custom_generate=maglio_generate, max_new_tokens=200)

Boundary: translates what ``generate`` has prepared into a stream of :mod:`maglio.decode`. Each
token is chosen by the library's own logits processors and stopping criteria, in their order, once
per committed token; torch draws the random numbers, one per token. So with the same seed the tokens
are those that ``generate`` gives alone, as far as the rows are: a row of a verify step may be
rounded differently.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

try:
    import torch
    from transformers.generation import GenerateDecoderOnlyOutput

    from maglio.engine.transformers import TransformersEngine
except ModuleNotFoundError as error:
    from maglio.errors import MaglioError

    if (error.name or "").partition(".")[0] not in ("torch", "transformers"):
        raise
    raise MaglioError(
        f"maglio.integrations.transformers needs the package {error.name}, which is not "
        'installed: pip install "maglio[hf]"'
    ) from None

from maglio.decode import SamplingParams, run
from maglio.decode import Sequence as TokenSequence
from maglio.decode.constraint import Mask
from maglio.draft.cascade import Cascade
from maglio.draft.reference import frozen
from maglio.economics.cost import FLAT_COST, UNPROBED_NATIVE_COST
from maglio.engine.base import Logits
from maglio.engine.registry import MOST_CONTEXT
from maglio.errors import InvalidArgumentError
from maglio.speculation import DraftingSetup, Speculation

_MAX_ROWS = 4096
_HANDLED = frozenset({"attention_mask", "position_ids", "cache", "use_cache", "logits_to_keep"})
_REFUSED = {
    "num_beams": (None, 1),
    "num_return_sequences": (None, 1),
    "penalty_alpha": (None, 0, 0.0),
    "dola_layers": (None,),
    "prompt_lookup_num_tokens": (None,),
    "use_cache": (None, True),
    "cache_implementation": (None, "dynamic", "dynamic_full"),
    "output_attentions": (None, False),
    "output_hidden_states": (None, False),
}
"""What of a generation config cannot be had here: the values that it may have."""

_models: weakref.WeakKeyDictionary[Any, _Prepared] = weakref.WeakKeyDictionary()


class _Prepared:
    """A model as an engine, and what its streams have taught."""

    def __init__(self, model: Any) -> None:  # noqa: ANN401 (a class per architecture)
        # The model is held weakly, as it is the key under which this is kept.
        engine = TransformersEngine(weakref.proxy(model), n_ctx=MOST_CONTEXT, max_rows=_MAX_ROWS)
        cost = UNPROBED_NATIVE_COST if model.device.type == "cpu" else FLAT_COST
        self.engine = engine
        self.drafting = DraftingSetup(engine.n_vocab, lambda: cost, can_rewind=engine.can_rewind)


def maglio_generate(
    model: Any,  # noqa: ANN401 (a class per architecture)
    input_ids: torch.Tensor,
    logits_processor: Any,  # noqa: ANN401 (called by the library's own rules)
    stopping_criteria: Any,  # noqa: ANN401
    generation_config: Any,  # noqa: ANN401
    *,
    speculation: bool | Speculation = True,
    references: Sequence[Sequence[int]] = (),
    text_streamer: Any = None,  # noqa: ANN401
    **model_kwargs: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Decode with drafts: for ``model.generate(custom_generate=maglio_generate, ...)``.

    ``generate`` calls it with the first five arguments; the others are passed to ``generate``.
    The generation config is honoured: lengths, ends, sampling and its filters, penalties, further
    processors and criteria. Beam search and other strategies are refused.

    Args:
        model: the model.
        input_ids: int64 ``(1, n)``: one prompt.
        logits_processor: what makes scores of logits.
        stopping_criteria: what ends the generation.
        generation_config: the rest that was asked for.
        speculation: whether, or how, to draft. It changes no token but by rounding.
        references: token ids of documents that the model may quote, to draft from.
        text_streamer: a streamer. ``generate`` does not pass its own ``streamer`` on, nor its
            ``tokenizer``: give a ``StopStringCriteria`` in the place of ``stop_strings``.
        model_kwargs: inputs of the model. Nothing but a mask without padding, and positions from 0.

    Returns:
        int64 ``(1, n + generated)``; or, with ``return_dict_in_generate``, the library's output
        with scores and logits if they were asked for.

    Raises:
        InvalidArgumentError: something was asked for that cannot be had here; says what.
    """
    _check(input_ids, generation_config, model_kwargs)
    prepared = _models.get(model)
    if prepared is None:
        prepared = _models[model] = _Prepared(model)
    chooser = _Chooser(prepared.engine.n_vocab, input_ids, logits_processor, generation_config)
    criteria = _Criteria(input_ids, stopping_criteria, chooser)
    greedy = not generation_config.do_sample
    drafting = prepared.drafting.start(
        speculation, SamplingParams(temperature=0.0 if greedy else 1.0)
    )
    if drafting.drafter is not None and references:
        source = drafting.drafter.source
        if not isinstance(source, Cascade):
            raise InvalidArgumentError("references are for the built-in sources of drafts")
        for reference in references:
            source.add_reference(frozen(reference))
    prompt = input_ids[0].tolist()
    sequence = TokenSequence(
        prepared.engine.new_cache(), chooser, drafting.drafter, n_ctx=prepared.engine.n_ctx
    )
    most = generation_config.max_length - len(prompt)
    sequence.begin(prompt, max_tokens=most, transcript=criteria)
    if text_streamer is not None:
        text_streamer.put(input_ids.cpu())
    for token in run(prepared.engine, sequence, drafting.cost):
        if text_streamer is not None:
            text_streamer.put(torch.tensor([token.id]))
    if text_streamer is not None:
        text_streamer.end()
    if drafting.history is not None:
        drafting.history.add(sequence.tokens)
    return _result(input_ids.new_tensor([sequence.tokens]), chooser, generation_config)


class _Chooser:
    """Picks as ``generate`` does. Rows are picked from in order, and each once."""

    def __init__(
        self,
        n_vocab: int,
        input_ids: torch.Tensor,
        processors: Any,  # noqa: ANN401
        config: Any,  # noqa: ANN401
    ) -> None:
        self.n_vocab = n_vocab
        self.scores: list[torch.Tensor] = []
        self.logits: list[torch.Tensor] = []
        self._ids = input_ids
        self._processors = processors
        self._samples = bool(config.do_sample)
        in_full = bool(config.return_dict_in_generate)
        self._keeps_scores = in_full and bool(config.output_scores)
        self._keeps_logits = in_full and bool(config.output_logits)

    def pick(self, row: Logits, position: int, mask: Mask | None = None) -> int:
        """The next token of the stream."""
        logits = torch.from_numpy(row)[None].to(self._ids.device, copy=True)
        scores = self._processors(self._ids, logits.clone() if self._keeps_logits else logits)
        if self._keeps_logits:
            self.logits.append(logits)
        if self._keeps_scores:
            self.scores.append(scores)
        if not self._samples:
            return int(torch.argmax(scores, dim=-1))
        return int(torch.multinomial(torch.softmax(scores, dim=-1), num_samples=1))

    def extend(self, tokens: Sequence[int]) -> None:
        """Append to the ids that processors see."""
        self._ids = torch.cat([self._ids, self._ids.new_tensor([list(tokens)])], dim=-1)

    def follow(self, tokens: Sequence[int], *, kept: int, answer: int) -> None:
        """Make the ids ``tokens``; those of the prompt are there from the beginning."""
        kept = min(kept, len(tokens), self._ids.shape[1])
        self._ids = self._ids[:, :kept]
        self.extend(tokens[kept:])


class _Criteria:
    """Asks the stopping criteria after each token, in the place of a transcript."""

    def __init__(
        self,
        input_ids: torch.Tensor,
        criteria: Any,  # noqa: ANN401
        chooser: _Chooser,
    ) -> None:
        self._ids = input_ids
        self._start: int = input_ids.shape[1]
        self._criteria = criteria
        self._chooser = chooser

    @property
    def length(self) -> int:
        """Generated tokens so far."""
        return int(self._ids.shape[1]) - self._start

    @property
    def settled(self) -> int:
        """All of them: nothing is taken back."""
        return self.length

    def push(self, token: int) -> bool:
        """Take the next token; whether the generation ends with it."""
        self._ids = torch.cat([self._ids, self._ids.new_tensor([[token]])], dim=-1)
        scores = tuple(self._chooser.scores) or None
        return bool(self._criteria(self._ids, scores)[0])

    def truncate(self, length: int) -> None:
        """Forget all but the first ``length`` generated tokens."""
        self._ids = self._ids[:, : self._start + length]


def _check(input_ids: torch.Tensor, config: Any, model_kwargs: dict[str, Any]) -> None:  # noqa: ANN401
    """Refuse what would be left out in silence."""
    for name, allowed in _REFUSED.items():
        value = getattr(config, name, None)
        if value not in allowed:
            raise InvalidArgumentError(
                f"{name} is {value!r:.80}, which maglio_generate does not support; leave it out"
            )
    if input_ids.shape[0] != 1:
        raise InvalidArgumentError(
            f"there are {input_ids.shape[0]} prompts; maglio_generate takes one at a time"
        )
    if input_ids.shape[1] == 0:
        raise InvalidArgumentError("the prompt is empty, must have a token")
    for name, value in model_kwargs.items():
        if name not in _HANDLED and value is not None:
            raise InvalidArgumentError(
                f"the model was given {name}, which maglio_generate does not support: it goes on "
                "with token ids alone"
            )
    cache = model_kwargs.get("cache")
    if cache is not None and cache.get_seq_length() > 0:
        raise InvalidArgumentError(
            "the cache that was given holds positions; maglio_generate begins with an empty one"
        )
    mask = model_kwargs.get("attention_mask")
    if mask is not None and not bool((mask == 1).all()):
        raise InvalidArgumentError("attention_mask has zeros; give the prompt without padding")
    positions = model_kwargs.get("position_ids")
    n = input_ids.shape[1]
    if positions is not None and positions.flatten().tolist() != list(range(n)):
        raise InvalidArgumentError(f"position_ids must be those from 0 to {n - 1}")


def _result(sequences: torch.Tensor, chooser: _Chooser, config: Any) -> Any:  # noqa: ANN401
    if not config.return_dict_in_generate:
        return sequences
    return GenerateDecoderOnlyOutput(
        sequences=sequences,
        scores=tuple(chooser.scores) if config.output_scores else None,
        logits=tuple(chooser.logits) if config.output_logits else None,
    )
