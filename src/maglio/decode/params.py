"""Sampling parameters: a value, checked when it is made. No arithmetic happens here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from maglio.checks import MAX_SEED, MAX_TOKEN_ID, check_int, check_real
from maglio.errors import InvalidArgumentError

LogitBias = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How a token is chosen from a row of logits, in the order in which the steps apply.

    1. Penalties, on tokens among the last ``penalty_last_n`` of the prompt and of what was
       committed since (-1: all of it, 0: none): a positive logit is divided by
       ``repeat_penalty``, another is multiplied by it; then ``frequency_penalty`` is subtracted
       once per occurrence and ``presence_penalty`` once. These are llama.cpp's semantics.
    2. ``logit_bias`` is added: a mapping of token id to bias, or a tuple of such pairs. A bias of
       ``-inf`` forbids a token. Kept as a tuple of pairs ordered by id.
    3. ``temperature`` divides. At 0 or below, the token with the largest logit is taken, ties
       going to the lowest id, and the steps below do not apply.
    4. ``top_k`` keeps the most probable tokens; 0 keeps all.
    5. ``top_p`` keeps the shortest list of most probable tokens that holds this share of the
       probability left so far, and at least one; 1 keeps all.
    6. ``min_p`` keeps tokens at least this many times as probable as the most probable; 0 keeps
       all.
    7. One uniform number picks from the candidates, ordered by probability and then by id.
       ``seed`` names the stream of these numbers.

    Raises:
        InvalidArgumentError: a field has a value that can never work.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_last_n: int = -1
    logit_bias: Mapping[int, float] | LogitBias = ()
    seed: int = 0

    def __post_init__(self) -> None:
        check_real("temperature", self.temperature)
        check_int("top_k", self.top_k, 0, MAX_TOKEN_ID)
        check_real("top_p", self.top_p, 0.0, 1.0)
        check_real("min_p", self.min_p, 0.0, 1.0)
        check_real("repeat_penalty", self.repeat_penalty)
        if self.repeat_penalty <= 0.0:
            raise InvalidArgumentError(
                f"repeat_penalty is {self.repeat_penalty!r}, must be above 0 (1 switches it off)"
            )
        check_real("frequency_penalty", self.frequency_penalty)
        check_real("presence_penalty", self.presence_penalty)
        check_int("penalty_last_n", self.penalty_last_n, -1, MAX_TOKEN_ID)
        check_int("seed", self.seed, 0, MAX_SEED)
        object.__setattr__(self, "logit_bias", _bias_pairs(self.logit_bias))

    @property
    def bias_pairs(self) -> LogitBias:
        """``logit_bias`` as ``(token id, bias)`` pairs ordered by id."""
        return tuple(self.logit_bias)  # type: ignore[arg-type]  # normalised when constructed


def _bias_pairs(bias: object) -> LogitBias:
    if isinstance(bias, Mapping):
        bias = bias.items()
    if not isinstance(bias, Iterable) or isinstance(bias, (str, bytes)):
        raise InvalidArgumentError(
            f"logit_bias is {bias!r}, must map token ids to biases or hold such pairs"
        )
    pairs: dict[int, float] = {}
    for pair in bias:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InvalidArgumentError(f"logit_bias holds {pair!r}, must be (token id, bias)")
        token, value = pair
        check_int("token id in logit_bias", token, 0, MAX_TOKEN_ID)
        if token in pairs:
            raise InvalidArgumentError(f"logit_bias names token {token} twice, must name it once")
        if value != -math.inf:
            check_real(f"logit_bias of token {token}", value)
        pairs[token] = float(value)
    return tuple(sorted(pairs.items()))
