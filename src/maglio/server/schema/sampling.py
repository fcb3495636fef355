"""How tokens are chosen: OpenAI's fields, and llama.cpp's where OpenAI has none.

Boundary: values as clients send them, in the ranges that OpenAI and llama.cpp document. What they
mean is said by :class:`~maglio.decode.SamplingParams`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from maglio.checks import MAX_SEED, MAX_TOKEN_ID
from maglio.server import limits
from maglio.server.schema.wire import Body

_MAX_BIAS = 100.0
Count = Annotated[int, Field(ge=-1, le=MAX_TOKEN_ID)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Penalty = Annotated[float, Field(ge=-2.0, le=2.0)]
NotNegative = Annotated[float, Field(ge=0.0)]
BreakerText = Annotated[str, Field(min_length=1, max_length=limits.BREAKER_CHARACTERS)]


def _pairs(bias: Any) -> Any:  # noqa: ANN401  # whatever JSON holds
    """The entries of a bias: OpenAI's object, or llama.cpp's pairs, in which false forbids."""
    entries = list(bias.items()) if isinstance(bias, dict) else bias
    if not isinstance(entries, list):
        raise PydanticCustomError("logit_bias_type", "must be an object of token ids and biases")
    return [_pair(entry) for entry in entries]


def _pair(entry: Any) -> tuple[int, float]:  # noqa: ANN401
    if isinstance(entry, (list, tuple)) and len(entry) == 2:
        token, value = entry
        if isinstance(token, str) and token.isascii() and token.isdigit() and len(token) <= 10:
            token = int(token)
        if value is False:
            value = float("-inf")
        is_token = isinstance(token, int) and not isinstance(token, bool)
        if is_token and isinstance(value, (int, float)) and not isinstance(value, bool):
            if -_MAX_BIAS <= value <= _MAX_BIAS or value == float("-inf"):
                return token, float(value)
            raise PydanticCustomError("logit_bias", "holds a bias that is not from -100 to 100")
    raise PydanticCustomError(
        "logit_bias_type", 'must map token ids to biases, as in {"15043": -100}'
    )


def _samplers(samplers: Any) -> Any:  # noqa: ANN401
    listed = isinstance(samplers, list) and all(isinstance(name, str) for name in samplers)
    if not listed and not isinstance(samplers, str):
        raise PydanticCustomError("samplers_type", "must be names of steps, or their letters")
    return samplers


Bias = Annotated[
    list[tuple[int, Annotated[float, Field(allow_inf_nan=True)]]],
    BeforeValidator(_pairs),
    Field(max_length=limits.BIASES),
]
Samplers = Annotated[list[str] | str, BeforeValidator(_samplers), Field(max_length=256)]
"""llama.cpp's order of steps: names in a list or separated by semicolons, or letters."""


class SamplingBody(Body):
    """The sampling fields of all endpoints; ``None`` is what the server's options say."""

    temperature: Annotated[float, Field(ge=0.0, le=2.0)] | None = None
    top_p: Share | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    seed: Annotated[int, Field(ge=-(1 << 63), le=MAX_SEED)] | None = None
    logit_bias: Bias | None = None
    # llama.cpp's.
    top_k: Annotated[int, Field(ge=-1, le=MAX_TOKEN_ID)] | None = None
    min_p: Share | None = None
    typical_p: Share | None = None
    top_n_sigma: Annotated[float, Field(ge=-1.0)] | None = None
    min_keep: Annotated[int, Field(ge=0, le=MAX_TOKEN_ID)] | None = None
    xtc_probability: Share | None = None
    xtc_threshold: Share | None = None
    repeat_penalty: Annotated[float, Field(gt=0.0)] | None = None
    repeat_last_n: Count | None = None
    dry_multiplier: NotNegative | None = None
    dry_base: Annotated[float, Field(ge=1.0)] | None = None
    dry_allowed_length: Annotated[int, Field(ge=1, le=MAX_TOKEN_ID)] | None = None
    dry_penalty_last_n: Count | None = None
    dry_sequence_breakers: (
        Annotated[list[BreakerText], Field(max_length=limits.BREAKERS)] | None
    ) = None
    ignore_eos: bool | None = None
    samplers: Samplers | None = None
