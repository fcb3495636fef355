"""A plain run and the setup to compare a speculative one with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from maglio.decode import Picker, SamplingParams
from support.decoder import Decoder
from support.toy_engine import ToyEngine, decode_plainly

PROMPT = (3, 14, 15, 9, 26, 5)
GREEDY = SamplingParams()
SAMPLED = SamplingParams(
    temperature=0.8,
    top_k=30,
    top_p=0.95,
    min_p=0.01,
    repeat_penalty=1.2,
    frequency_penalty=0.4,
    presence_penalty=0.3,
    penalty_last_n=24,
    logit_bias={7: 1.0},
    seed=5,
)


@dataclass(frozen=True, slots=True)
class PlainRun:
    """What plain decoding makes of PROMPT."""

    params: SamplingParams
    model: dict[str, Any]
    output: list[int]

    @property
    def stream(self) -> list[int]:
        return [*PROMPT, *self.output]

    def engine(self, **extra: Any) -> ToyEngine:
        return ToyEngine(**{**self.model, **extra})

    def picker(self) -> Picker:
        return Picker(self.params, self.engine().n_vocab)

    def decoder(self, source: Any = None, *, max_draft: int = 16, **engine: Any) -> Decoder:
        return Decoder(self.engine(**engine), self.picker(), source, max_draft=max_draft)

    def check(self, decoder: Decoder, *, generated: int) -> None:
        """The decoder is in the state in which plain decoding is after so many tokens."""
        stream = self.stream[: len(PROMPT) + generated]
        decoder.settle()
        assert list(decoder.tokens) == stream
        # The row of the last token may be there, if it was computed as part of a draft.
        assert decoder.cache.tokens in (stream[:-1], stream)
        assert decoder.sequence.position == generated
        assert decoder.picker.length == len(stream)


def plain_run(params: SamplingParams, max_tokens: int = 60, **model: Any) -> PlainRun:
    engine = ToyEngine(**model)
    picker = Picker(params, engine.n_vocab)
    return PlainRun(params, model, decode_plainly(engine, picker, PROMPT, max_tokens))


def ids(tokens: Any) -> list[int]:
    return [token.id for token in tokens]


def draft_tokens(forwards: Sequence[tuple[int, ...]]) -> int:
    return sum(len(fed) - 1 for fed in forwards)
