"""Sampling parameters: a value, checked when it is made. No arithmetic happens here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from maglio.checks import MAX_SEED, MAX_TOKEN_ID, check_int, check_real, is_int
from maglio.decode.order import ORDERS, steps_of
from maglio.errors import InvalidArgumentError

LogitBias = tuple[tuple[int, float], ...]
_Bounds = tuple[float, float]

_ANY: _Bounds = (-math.inf, math.inf)
_SHARE: _Bounds = (0.0, 1.0)
_FROM_0: _Bounds = (0.0, math.inf)

# Fields that are real numbers, and their range.
_REALS: dict[str, _Bounds] = {
    "temperature": _ANY,
    "top_n_sigma": _FROM_0,
    "typical_p": _SHARE,
    "top_p": _SHARE,
    "min_p": _SHARE,
    "xtc_probability": _SHARE,
    "xtc_threshold": _SHARE,
    "repeat_penalty": _ANY,
    "frequency_penalty": _ANY,
    "presence_penalty": _ANY,
    "dry_multiplier": _FROM_0,
    "dry_base": (1.0, math.inf),
}

# Fields that are whole numbers, and their range.
_INTS: dict[str, tuple[int, int]] = {
    "top_k": (0, MAX_TOKEN_ID),
    "min_keep": (1, MAX_TOKEN_ID),
    "penalty_last_n": (-1, MAX_TOKEN_ID),
    "dry_allowed_length": (1, MAX_TOKEN_ID),
    "dry_penalty_last_n": (-1, MAX_TOKEN_ID),
    "seed": (0, MAX_SEED),
}

# The fields that switch a step on, and the value that leaves it off.
_SWITCHES: dict[str, dict[str, float]] = {
    "penalties": {"repeat_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0},
    "dry": {"dry_multiplier": 0.0},
    "temperature": {"temperature": 1.0},
    "top_n_sigma": {"top_n_sigma": 0.0},
    "top_k": {"top_k": 0},
    "typical_p": {"typical_p": 1.0},
    "top_p": {"top_p": 1.0},
    "min_p": {"min_p": 0.0},
    "xtc": {"xtc_probability": 0.0},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How a token is chosen from a row of logits. docs/sampling.md defines each step.

    The steps, in the default order; ``order`` changes it:

    1. ``penalties``. A positive logit of a token among the last ``penalty_last_n`` of the prompt
       and the answer (-1: all, 0: none) is divided by ``repeat_penalty``, another is multiplied by
       it. Then ``frequency_penalty`` is subtracted once per occurrence in the answer alone, and
       ``presence_penalty`` once. Control tokens are never penalised.
    2. ``dry``. A token that would prolong a repetition of n tokens loses ``dry_multiplier`` times
       ``dry_base`` to the power of n - ``dry_allowed_length``, if n is at least that. Repetitions
       are looked for in the last ``dry_penalty_last_n`` tokens (-1: all, 0: none), and reach over
       none of ``dry_breakers``, which are token ids or sequences of them, nor over control tokens.
    3. ``logit_bias`` is added: a mapping of token id to bias, or a tuple of such pairs. A bias of
       ``-inf`` forbids a token. ``ignore_eos`` forbids the tokens that end an answer.
    4. ``temperature`` divides. At 0 or below, the token with the largest logit is taken, ties
       going to the lowest id, and the steps below do not apply.
    5. ``top_n_sigma`` keeps logits at most so many standard deviations below the largest; 0 is off.
    6. ``top_k`` keeps the most probable tokens; 0 is off.
    7. ``typical_p`` keeps the tokens whose surprise is nearest the expected one, until they hold
       this share of the probability; 1 is off.
    8. ``top_p`` keeps the shortest list of most probable tokens that holds this share of the
       probability left so far; 1 is off.
    9. ``min_p`` keeps tokens at least this many times as probable as the most probable; 0 is off.
    10. ``xtc``. With ``xtc_probability``, all tokens at least as probable as ``xtc_threshold`` are
        dropped but the least probable of them; 0 is off.

    Filters other than ``top_k`` leave at least ``min_keep`` tokens. Then one uniform number picks
    from the candidates, ordered by probability and then by id. ``seed`` names the stream of these
    numbers.

    ``order`` is ``"default"``, ``"llama.cpp"`` (the bias first and the temperature last) or a
    sequence of the step names above. A step that it does not name must be off.

    Raises:
        InvalidArgumentError: a field has a value that can never work.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    top_n_sigma: float = 0.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    min_keep: int = 1
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_last_n: int = 64
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1
    dry_breakers: Sequence[int | Sequence[int]] = ()
    logit_bias: Mapping[int, float] | LogitBias = ()
    ignore_eos: bool = False
    order: str | Sequence[str] = "default"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, real_range in _REALS.items():
            check_real(name, getattr(self, name), *real_range)
            object.__setattr__(self, name, float(getattr(self, name)))
        for name, int_range in _INTS.items():
            check_int(name, getattr(self, name), *int_range)
            object.__setattr__(self, name, int(getattr(self, name)))
        if self.repeat_penalty <= 0.0:
            raise InvalidArgumentError(
                f"repeat_penalty is {self.repeat_penalty!r}, must be above 0 (1 switches it off)"
            )
        if not isinstance(self.ignore_eos, bool):
            raise InvalidArgumentError(f"ignore_eos is {self.ignore_eos!r}, must be True or False")
        object.__setattr__(self, "logit_bias", _bias_pairs(self.logit_bias))
        object.__setattr__(self, "dry_breakers", _breakers(self.dry_breakers))
        steps = steps_of(self.order)
        self._check_left_out(steps)
        named = (name for name, order in ORDERS.items() if order == steps)
        object.__setattr__(self, "order", next(named, steps))

    @property
    def bias_pairs(self) -> LogitBias:
        """``logit_bias`` as ``(token id, bias)`` pairs ordered by id."""
        return tuple(self.logit_bias)  # type: ignore[arg-type]  # normalised when constructed

    @property
    def steps(self) -> tuple[str, ...]:
        """``order`` as the steps themselves."""
        return steps_of(self.order)

    def _check_left_out(self, steps: tuple[str, ...]) -> None:
        for step in _SWITCHES.keys() - steps:
            for name, off in _SWITCHES[step].items():
                value = getattr(self, name)
                is_greedy = step == "temperature" and value <= 0.0
                if value != off and not is_greedy:
                    raise InvalidArgumentError(
                        f"{name} is {value!r}, must be {off:g} (off) as order does not name {step}"
                    )


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
        if isinstance(token, str) and token.isascii() and token.isdigit() and len(token) <= 10:
            token = int(token)  # a JSON object, such as OpenAI's, has strings for keys
        check_int("token id in logit_bias", token, 0, MAX_TOKEN_ID)
        if token in pairs:
            raise InvalidArgumentError(f"logit_bias names token {token} twice, must name it once")
        if not isinstance(value, (float, np.floating)) or value != -math.inf:
            check_real(f"logit_bias of token {token}", value)
        pairs[int(token)] = float(value)
    return tuple(sorted(pairs.items()))


def _breakers(breakers: object) -> tuple[int | tuple[int, ...], ...]:
    """Single ids first, and sequences of two or more; in order, each of them once."""
    sequences = set[tuple[int, ...]]()
    for breaker in _listed(breakers):
        tokens = [breaker] if is_int(breaker) else _listed(breaker)
        if not tokens:
            raise InvalidArgumentError("dry_breakers has an empty sequence, must have ids in each")
        for token in tokens:
            check_int("token id in dry_breakers", token, 0, MAX_TOKEN_ID)
        sequences.add(tuple(int(token) for token in tokens if is_int(token)))
    single = sorted(tokens[0] for tokens in sequences if len(tokens) == 1)
    return (*single, *sorted(tokens for tokens in sequences if len(tokens) > 1))


def _listed(ids: object) -> list[object]:
    if not isinstance(ids, Iterable) or isinstance(ids, (str, bytes, Mapping)):
        raise InvalidArgumentError(
            f"dry_breakers is or has {ids!r:.80}, must be token ids or sequences of them"
        )
    return list(ids)
