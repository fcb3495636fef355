from __future__ import annotations

import math

import pytest

from maglio.decode import SamplingParams
from maglio.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("temperature", [math.nan, math.inf, "0.8", None, True]),
        ("top_k", [-1, 1.0, True, 2**31]),
        ("top_p", [-0.1, 1.1, math.nan, True]),
        ("min_p", [-0.1, 1.1, math.nan]),
        ("repeat_penalty", [0.0, -1.0, math.nan, math.inf]),
        ("frequency_penalty", [math.nan, math.inf]),
        ("presence_penalty", [math.nan, -math.inf, "1"]),
        ("penalty_last_n", [-2, 1.5, False]),
        ("seed", [-1, 2**64, 0.0, True]),
        ("logit_bias", [3, "ab", {-1: 0.0}, {1.0: 0.0}, {True: 0.0}, {1: math.nan}, {1: math.inf}]),
        ("logit_bias", [((1, 2.0), (1, 3.0)), ((1,),), ({1: 2},), {1: "x"}]),
    ],
)
def test_a_senseless_value_is_refused_by_name(field, values):
    for value in values:
        with pytest.raises(InvalidArgumentError, match=field):
            SamplingParams(**{field: value})


def test_the_message_says_value_and_range():
    with pytest.raises(InvalidArgumentError, match=r"top_p is 1\.5, must be .* from 0 to 1"):
        SamplingParams(top_p=1.5)


def test_params_are_values():
    mapping = {5: -math.inf, 2: 1}
    params = SamplingParams(logit_bias=mapping)
    mapping[7] = 1.0
    assert params.logit_bias == ((2, 1.0), (5, -math.inf))
    assert params == SamplingParams(logit_bias=((5, -math.inf), (2, 1.0)))
    assert hash(params) == hash(SamplingParams(logit_bias={2: 1.0, 5: -math.inf}))
