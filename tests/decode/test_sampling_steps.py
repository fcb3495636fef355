"""What each step of sampling does, on rows small enough to reckon by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from maglio.decode import Picker, SamplingParams
from maglio.errors import InvalidArgumentError


def drawn(params: SamplingParams, row: np.ndarray, n: int = 400, **extra) -> set[int]:
    """The tokens that come up in so many draws."""
    picker = Picker(params, len(row), **extra)
    return {picker.pick(row, position) for position in range(n)}


def test_min_p_means_less_before_the_temperature_than_after_it():
    # The most probable token is e times as probable as the next, and so on.
    row = np.arange(0, -40, -1, dtype=np.float32)
    ours = SamplingParams(temperature=4.0, min_p=0.1)
    assert drawn(ours, row, 3000) == set(range(10))  # exp(-9 / 4) >= 0.1
    theirs = SamplingParams(temperature=4.0, min_p=0.1, order="llama.cpp")
    assert drawn(theirs, row, 3000) == {0, 1, 2}  # exp(-2) >= 0.1


def test_a_step_has_its_turn_where_the_order_says():
    row = np.log(np.array([0.5, 0.3, 0.15, 0.05], dtype=np.float32))
    params = {"temperature": 1.0, "top_k": 2, "top_p": 0.7}
    assert drawn(SamplingParams(**params, order=["top_k", "top_p"]), row) == {0, 1}
    # 0.5 of 0.8 is less than 0.7, but 0.5 / 0.8 is not less than 0.6.
    params["top_p"] = 0.6
    assert drawn(SamplingParams(**params, order=["top_k", "top_p"]), row) == {0}
    assert drawn(SamplingParams(**params, order=["top_p", "top_k"]), row) == {0, 1}


def test_a_bias_is_penalised_where_it_comes_first():
    row = np.array([1.0, 0.0, 0.0], dtype=np.float32)
    bias = {"repeat_penalty": 4.0, "logit_bias": {0: 2.0}}
    for order, token in (("default", 0), ("llama.cpp", 2)):
        picker = Picker(SamplingParams(**bias, order=order), 3)
        picker.extend([0, 1])
        # 1 / 4 + 2 is the largest; (1 + 2) / 4 is less than 1.
        row[2] = 1.0
        assert picker.pick(row, 0) == token


def test_typical_p_leaves_out_what_is_too_probable():
    # Entropy 1.28 nats; surprises 0.92 and 1.61 to 2.30: the tokens of 0.2 are nearest.
    row = np.log(np.array([0.4, 0.2, 0.2, 0.1, 0.1], dtype=np.float32))
    assert drawn(SamplingParams(temperature=1.0, typical_p=0.3), row) == {1, 2}
    assert drawn(SamplingParams(temperature=1.0, typical_p=0.5), row) == {0, 1, 2}


def test_top_n_sigma_does_not_depend_on_the_temperature():
    row = np.array([10.0, 9.0, 0.0, 0.0, 0.0, 0.0, -np.inf], dtype=np.float32)  # deviation 4.49
    for temperature in (0.7, 5.0):
        for order in ("default", "llama.cpp"):
            some = SamplingParams(temperature=temperature, top_n_sigma=0.3, order=order)
            assert drawn(some, row) == {0, 1}
    most = SamplingParams(temperature=5.0, top_n_sigma=2.3)
    assert drawn(most, row) == {0, 1, 2, 3, 4, 5}


def test_xtc_drops_the_top_choices_but_the_last():
    row = np.log(np.array([0.4, 0.3, 0.2, 0.06, 0.04], dtype=np.float32))
    always = SamplingParams(temperature=1.0, xtc_probability=1.0, xtc_threshold=0.1)
    assert drawn(always, row) == {2, 3, 4}
    assert drawn(dataclasses.replace(always, xtc_threshold=0.35), row) == {0, 1, 2, 3, 4}
    assert drawn(dataclasses.replace(always, min_keep=4), row) == {0, 1, 2, 3, 4}


def test_xtc_is_on_as_often_as_it_should_be_and_takes_no_number_of_the_draw():
    row = np.log(np.array([0.5, 0.5], dtype=np.float32))
    half = Picker(SamplingParams(temperature=1.0, xtc_probability=0.3, seed=3), 2)
    plain = Picker(SamplingParams(temperature=1.0, seed=3), 2)
    n = 10_000
    pairs = [(half.pick(row, i), plain.pick(row, i)) for i in range(n)]
    changed = sum(one != other for one, other in pairs)
    # On in 0.3 of them it leaves token 1, which the same number drew in half of these anyway.
    assert abs(changed / n - 0.15) < 0.015
    assert all(one == 1 for one, other in pairs if one != other)


def test_a_filter_leaves_at_least_so_many():
    row = np.log(np.array([0.9, 0.05, 0.03, 0.02], dtype=np.float32))
    for setting in ({"top_p": 0.1}, {"min_p": 0.9}, {"top_n_sigma": 0.01}, {"typical_p": 0.1}):
        for least in (1, 3, 9):
            params = SamplingParams(temperature=4.0, min_keep=least, **setting)
            assert len(drawn(params, row, 2000)) == min(least, 4)


def test_dry_lowers_what_would_go_on_with_a_repetition():
    row = np.zeros(10, dtype=np.float32)
    row[[4, 5, 6]] = (3.0, 2.0, 1.0)
    params = SamplingParams(dry_multiplier=1.0, dry_base=2.0, dry_allowed_length=2)

    def pick(history, **changes):
        picker = Picker(dataclasses.replace(params, **changes), 10, exempt=[9])
        picker.extend(history)
        return picker.pick(row, 0)

    assert pick([1, 2, 3, 4, 7, 3]) == 4  # one token is no repetition
    assert pick([2, 3, 4, 7, 2, 3]) == 4  # 3 - 1 ties with 2
    assert pick([1, 2, 3, 4, 7, 1, 2, 3]) == 5  # 3 - 2, and the tie goes to 5
    assert pick([1, 2, 3, 4, 7, 1, 2, 3], dry_penalty_last_n=6) == 4
    assert pick([1, 2, 3, 4, 7, 1, 2, 3], dry_breakers=[2]) == 4
    assert pick([1, 2, 3, 4, 7, 1, 2, 3], dry_breakers=[[1, 2]]) == 4
    assert pick([1, 2, 3, 4, 7, 1, 2, 3], dry_breakers=[[2, 3]]) == 4
    assert pick([1, 2, 3, 4, 7, 1, 2, 3], dry_breakers=[[1, 3], [3, 4]]) != 4
    assert pick([1, 2, 3, 4, 7, 1, 2, 3], dry_breakers=[[9, 4]]) != 4  # 4 alone is none
    assert pick([1, 9, 3, 4, 7, 1, 9, 3]) == 4  # over a control token
    assert pick([1, 2, 3, 4, 7, 1, 2, 3], dry_breakers=[4]) == 4
    assert pick([8, 8, 8, 8, 8, 8] * 40, dry_base=1e9) == 4
    everywhere = Picker(dataclasses.replace(params, dry_base=1e9, dry_allowed_length=1), 10)
    everywhere.extend([token for token in range(10) for _ in range(60)] * 2)
    assert 0 <= everywhere.pick(row, 0) < 10


def test_frequency_and_presence_count_the_answer_and_repetition_the_window():
    row = np.array([2.0, 1.9, 1.8, 0.0], dtype=np.float32)
    for setting in ({"frequency_penalty": 0.5}, {"presence_penalty": 0.5}):
        picker = Picker(SamplingParams(**setting, penalty_last_n=1), 4)
        picker.extend([0, 0, 3, 1, 3, 3])
        picker.begin_answer(2)
        assert picker.pick(row, 0) == 0
        picker.begin_answer(1)
        assert picker.pick(row, 0) == 2
        picker.begin_answer(9)
        assert picker.pick(row, 0) == 0
    picker = Picker(SamplingParams(repeat_penalty=1.5), 4)
    picker.extend([0, *[3] * 63])
    picker.begin_answer(64)
    assert picker.pick(row, 0) == 1
    picker.extend([3])
    assert picker.pick(row, 0) == 0


def test_control_tokens_are_never_penalised():
    row = np.array([2.0, 1.9], dtype=np.float32)
    params = SamplingParams(repeat_penalty=2.0, frequency_penalty=2.0, presence_penalty=2.0)
    for exempt, token in (([], 1), ([0], 0)):
        picker = Picker(params, 2, exempt=exempt)
        picker.extend([0, 0, 0])
        assert picker.pick(row, 0) == token


def test_ignore_eos_forbids_the_ends():
    row = np.array([5.0, 4.0, 3.0], dtype=np.float32)
    assert Picker(SamplingParams(), 3, ends=[0, 1]).pick(row, 0) == 0
    forbidding = SamplingParams(ignore_eos=True, logit_bias={0: 9.0})
    assert Picker(forbidding, 3, ends=[0, 1]).pick(row, 0) == 2


@pytest.mark.parametrize("argument", ["exempt", "ends"])
def test_special_tokens_outside_the_vocabulary_are_refused(argument):
    with pytest.raises(InvalidArgumentError, match=r"token 10, must be 0 \.\. 9"):
        Picker(SamplingParams(ignore_eos=True), 10, **{argument: [10]})
    with pytest.raises(InvalidArgumentError, match="dry_breakers names token 10"):
        Picker(SamplingParams(dry_breakers=[10]), 10)


def test_what_are_no_parameters_is_refused():
    with pytest.raises(InvalidArgumentError, match="must be SamplingParams"):
        Picker("hot", 10)
