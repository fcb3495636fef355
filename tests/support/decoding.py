"""A plain run and the setup to compare a speculative one with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from maglio.decode import DecodeOptions, Sampler, SamplingParams, SpeculativeDecoder
from support.toy_session import ToySession, decode_plainly

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

    def session(self, **extra: Any) -> ToySession:
        return ToySession(**{**self.model, **extra})

    def sampler(self) -> Sampler:
        return Sampler(self.params, self.session().n_vocab)

    def decoder(
        self, source: Any = None, *, options: DecodeOptions | None = None, **session: Any
    ) -> SpeculativeDecoder:
        return SpeculativeDecoder(self.session(**session), self.sampler(), source, options=options)

    def check(self, decoder: SpeculativeDecoder, *, generated: int) -> None:
        """The decoder is in the state in which plain decoding is after so many tokens."""
        stream = self.stream[: len(PROMPT) + generated]
        assert list(decoder.tokens) == stream
        assert decoder._session.tokens == stream[:-1]
        assert decoder._sampler.position == generated
        assert decoder._sampler.history_length == len(stream)


def plain_run(params: SamplingParams, max_tokens: int = 60, **model: Any) -> PlainRun:
    session = ToySession(**model)
    sampler = Sampler(params, session.n_vocab)
    return PlainRun(params, model, decode_plainly(session, sampler, PROMPT, max_tokens))


def ids(tokens: Any) -> list[int]:
    return [token.id for token in tokens]


def draft_tokens(forwards: Sequence[tuple[int, ...]]) -> int:
    return sum(len(fed) - 1 for fed in forwards)
