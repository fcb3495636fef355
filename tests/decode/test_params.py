from __future__ import annotations

import math

import numpy as np
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
        ("typical_p", [-0.1, 1.1, math.nan]),
        ("top_n_sigma", [-1.0, math.inf, "1"]),
        ("xtc_probability", [-0.1, 1.5]),
        ("xtc_threshold", [-0.1, 1.5]),
        ("min_keep", [0, 1.0, True]),
        ("dry_multiplier", [-0.1, math.inf]),
        ("dry_base", [0.99, math.nan]),
        ("dry_allowed_length", [0, 2.0]),
        ("dry_penalty_last_n", [-2, True]),
        (
            "dry_breakers",
            [3, "ab", [-1], [1.0], [True], {1: 2}, [[]], [[1, -1]], [["a"]], [{1: 2}]],
        ),
        ("ignore_eos", [1, None, "yes"]),
        ("order", ["", "llama", 3, None, b"x", ["top_k", "top_k"], ["magic"], [3], [["top_k"]]]),
        ("order", [("temperature", "dry"), ("top_k", "logit_bias")]),
        ("seed", [-1, 2**64, 0.0, True]),
        ("logit_bias", [3, "ab", {-1: 0.0}, {1.0: 0.0}, {True: 0.0}, {1: math.nan}, {1: math.inf}]),
        ("logit_bias", [((1, 2.0), (1, 3.0)), ((1,),), ({1: 2},), {1: "x"}]),
        ("logit_bias", [{"a": 1.0}, {"-1": 1.0}, {"1.0": 1.0}, {"": 1.0}, {"1": 0.0, 1: 0.0}]),
        ("logit_bias", [{"99999999999": 1.0}, {"²": 1.0}, {1: np.zeros(2)}]),
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


def test_strings_are_token_ids_as_in_json():
    params = SamplingParams(logit_bias={"50256": -100, "7": -math.inf})
    assert params.bias_pairs == ((7, -math.inf), (50256, -100.0))


def test_numbers_of_numpy_become_plain_ones():
    params = SamplingParams(
        temperature=np.float32(0.5),
        top_k=np.int64(7),
        seed=np.uint64(2**64 - 1),
        dry_breakers=np.array([3, 1, 3]),
        logit_bias={np.int32(4): np.float32(1.5), np.str_("5"): np.float32(-np.inf)},
    )
    assert params == SamplingParams(
        temperature=0.5,
        top_k=7,
        seed=2**64 - 1,
        dry_breakers=(1, 3),
        logit_bias={4: 1.5, 5: -math.inf},
    )
    assert {type(params.temperature), type(params.bias_pairs[0][1])} == {float}
    kinds = {type(params.top_k), type(params.seed), type(params.bias_pairs[0][0])}
    assert kinds | {type(token) for token in params.dry_breakers} == {int}


def test_an_order_has_one_form():
    names = ["penalties", "dry", "top_n_sigma", "top_k", "typical_p", "top_p", "min_p", "xtc"]
    params = SamplingParams(order=[*names, "temperature"])  # as llama.cpp's --samplers
    assert params.order == "llama.cpp"
    assert params == SamplingParams(order="llama.cpp")
    assert params.steps[0] == "logit_bias"
    assert params.steps[-1] == "temperature"
    assert SamplingParams().steps.index("temperature") < SamplingParams().steps.index("top_k")
    assert SamplingParams(order=SamplingParams().steps).order == "default"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("repeat_penalty", 1.1),
        ("presence_penalty", 0.1),
        ("dry_multiplier", 0.8),
        ("temperature", 0.8),
        ("top_n_sigma", 1.0),
        ("top_k", 5),
        ("typical_p", 0.9),
        ("top_p", 0.9),
        ("min_p", 0.1),
        ("xtc_probability", 0.5),
    ],
)
def test_an_order_names_every_step_that_does_something(field, value):
    with pytest.raises(InvalidArgumentError, match=rf"{field} is {value}, must be \S+ \(off\)"):
        SamplingParams(**{"temperature": 1.0, field: value}, order=())
    SamplingParams(temperature=1.0, order=())
    SamplingParams(temperature=0.0, order=["top_k"], top_k=3)
