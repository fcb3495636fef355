from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio import _core
from maglio.decode import Picker, SamplingParams
from maglio.decode.order import LIST_STEPS, ROW_STEPS
from maglio.errors import InvalidArgumentError, InvalidLogitsError
from support import sampler_twin as twin

# Known answers published with Random123 (tests/kat_vectors): counter, key, result.
PHILOX_ANSWERS = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([2**32 - 1] * 4, [2**32 - 1] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


def row_of(n_vocab: int, seed: int, *, spread: float = 3.0, distinct: int = 0) -> np.ndarray:
    """Random logits; ``distinct`` > 0 leaves only so many different values."""
    rng = np.random.default_rng(seed)
    row = rng.standard_normal(n_vocab) * spread
    return (np.round(row * distinct) / distinct if distinct else row).astype(np.float32)


# What a setting may be, its neutral value first.
SETTINGS = {
    "top_k": [0, 1, 2, 5, 40, 100],
    "top_p": [1.0, 0.0, 0.1, 0.5, 0.9, 0.95, 0.999],
    "min_p": [0.0, 1e-9, 0.01, 0.05, 0.5, 1.0],
    "typical_p": [1.0, 0.0, 0.2, 0.7, 0.95],
    "top_n_sigma": [0.0, 0.5, 1.0, 1.5, 3.0, 1e9],
    "xtc_probability": [0.0, 0.5, 1.0],
    "xtc_threshold": [0.1, 0.0, 0.02, 0.4],
    "min_keep": [1, 2, 5, 70],
    "repeat_penalty": [1.0, 1.1, 0.7, 3.0],
    "frequency_penalty": [0.0, 0.3, -0.4],
    "presence_penalty": [0.0, 0.5, -2.0],
    "penalty_last_n": [64, -1, 0, 1, 3],
    "dry_multiplier": [0.0, 0.8, 30.0],
    "dry_base": [1.75, 1.0, 3.0],
    "dry_allowed_length": [2, 1, 4],
    "dry_penalty_last_n": [-1, 0, 1, 7, 40],
}


@st.composite
def orders(draw: st.DrawFn) -> tuple[str, ...]:
    return (*draw(st.permutations(ROW_STEPS)), *draw(st.permutations(LIST_STEPS)))


@st.composite
def sampling_params(draw: st.DrawFn, n_vocab: int) -> SamplingParams:
    ids = st.integers(0, n_vocab - 1)
    chosen = draw(st.sets(st.sampled_from(list(SETTINGS)), max_size=9))
    return SamplingParams(
        **{name: draw(st.sampled_from(SETTINGS[name])) for name in sorted(chosen)},
        temperature=draw(st.sampled_from([0.0, -1.0, 0.05, 0.8, 1.0, 1.7, 30.0, 1e-40, 1e40])),
        dry_breakers=draw(st.lists(ids | st.lists(ids, min_size=2, max_size=3), max_size=3)),
        logit_bias=draw(
            st.dictionaries(
                ids, st.sampled_from([-math.inf, -1.5, 0.25, 4.0]), max_size=min(3, n_vocab - 1)
            )
        ),
        order=draw(st.one_of(st.sampled_from(["default", "llama.cpp"]), orders())),
        seed=draw(st.sampled_from([0, 1, 12345, 2**32, 2**64 - 1])),
    )


@st.composite
def histories(draw: st.DrawFn, n_vocab: int) -> twin.History:
    few = draw(st.sampled_from([n_vocab, min(n_vocab, 3)]))  # few tokens repeat themselves
    tokens = draw(st.lists(st.integers(0, few - 1), max_size=80))
    return twin.History(
        tokens,
        draw(st.integers(0, len(tokens) + 2)),
        draw(st.sets(st.integers(0, few - 1), max_size=2)),
    )


@pytest.mark.parametrize(("counter", "key", "answer"), PHILOX_ANSWERS)
def test_philox_gives_the_published_answers(counter, key, answer):
    assert list(_core.philox4x32(counter, key)) == answer
    assert twin.philox4x32(counter, key) == answer


@settings(max_examples=800, deadline=None)
@given(data=st.data())
def test_a_sample_is_that_of_the_fully_sorted_definition(data):
    n_vocab = data.draw(st.sampled_from([2, 63, 64, 65, 300, 5000]))
    params = data.draw(sampling_params(n_vocab))
    row = row_of(
        n_vocab,
        data.draw(st.integers(0, 2**32)),
        spread=data.draw(st.sampled_from([0.0, 0.01, 1.0, 8.0])),
        distinct=data.draw(st.sampled_from([0, 1, 4])),
    )
    history = data.draw(histories(n_vocab))
    position = data.draw(st.integers(0, 2**40))
    picker = Picker(params, n_vocab, exempt=history.exempt)
    cut = data.draw(st.integers(0, len(history.tokens)))
    picker.extend(history.tokens[:cut])
    picker.begin_answer(history.answer)
    picker.extend(history.tokens[cut:])
    assert picker.pick(row, position) == twin.sample(row, params, history, position)


EXTRA = [
    {},
    {},
    {"typical_p": 0.6},
    {"xtc_probability": 1.0, "xtc_threshold": 0.0},
    {},
    {},
    {"top_n_sigma": 1.0, "order": "llama.cpp"},
    {"min_keep": 49_000},
]


@pytest.mark.parametrize("seed", range(8))
def test_flat_rows_of_a_large_vocabulary_are_drawn_exactly(seed):
    # So flat that the draw lies far beyond the first tiers of the shortlist.
    row = row_of(50_000, seed, spread=0.3, distinct=50 if seed % 2 else 0)
    extra = EXTRA[seed]
    params = SamplingParams(temperature=1.5, top_p=1.0 if seed < 4 else 0.97, seed=seed, **extra)
    assert Picker(params, 50_000).pick(row, 0) == twin.sample(row, params, [], 0)


def test_weights_are_the_exponential():
    x = np.linspace(-30.0, 0.0, 10_001, dtype=np.float32)
    exact = np.exp(x.astype(np.float64))
    mine = np.array(twin.weights(x, 1.0)) / twin.UNIT
    assert np.abs(mine - exact).max() <= 2.0**-22
    assert (np.abs(mine - exact) / exact)[x > -15].max() < 2.0**-21


def test_the_distribution_is_the_softmax():
    row = np.array([2.0, 1.0, 0.0, -1.0, -1.0, -2.0], dtype=np.float32)
    picker = Picker(SamplingParams(temperature=1.3, seed=7), 6)
    n = 60_000
    drawn = np.bincount([picker.pick(row, i) for i in range(n)], minlength=6)
    expected = np.exp(row / 1.3)
    expected *= n / expected.sum()
    chi_square = ((drawn - expected) ** 2 / expected).sum()
    assert chi_square < 20.5  # 5 degrees of freedom, p = 0.001; the seed is fixed


def test_a_pick_is_a_function_of_row_history_and_position():
    row = row_of(500, 3)
    params = SamplingParams(temperature=1.0, seed=11)
    straight = [Picker(params, 500).pick(row, position) for position in range(40)]
    picker = Picker(params, 500)
    for position in reversed(range(40)):
        assert picker.pick(row, position) == picker.pick(row, position) == straight[position]
    assert len(set(straight)) > 10


def test_ties_go_to_the_lowest_id():
    row = np.zeros(200, dtype=np.float32)
    row[[150, 70, 130]] = 1.0
    assert Picker(SamplingParams(), 200).pick(row, 0) == 70
    assert Picker(SamplingParams(temperature=1.0, top_k=1), 200).pick(row, 0) == 70
    row[:] = 0.0
    row[::2] = -0.0
    assert Picker(SamplingParams(), 200).pick(row, 0) == 0


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("n_vocab", [1, 64, 100, 1000])
def test_a_nan_raises_wherever_it_hides(temperature, n_vocab):
    params = SamplingParams(temperature=temperature, top_k=3)
    for index in {0, n_vocab // 3, n_vocab // 2, n_vocab - 1}:
        row = row_of(n_vocab, 1)
        row[index] = np.nan
        picker = Picker(params, n_vocab)
        with pytest.raises(InvalidLogitsError, match=f"token {index} is NaN"):
            picker.pick(row, 0)


@pytest.mark.parametrize("params", [SamplingParams(), SamplingParams(temperature=1.0)])
def test_infinite_logits_are_impossible_or_refused(params):
    row = np.full(100, -np.inf, dtype=np.float32)
    with pytest.raises(InvalidLogitsError, match="all 100 logits are -inf"):
        Picker(params, 100).pick(row, 0)
    row[42] = -1e30
    assert Picker(params, 100).pick(row, 0) == 42
    row[43] = np.inf
    with pytest.raises(InvalidLogitsError, match=r"token 43 is \+inf"):
        Picker(params, 100).pick(row, 0)


def test_a_forbidden_token_cannot_be_drawn():
    params = SamplingParams(temperature=5.0, logit_bias={2: -math.inf, 3: -math.inf})
    picker = Picker(params, 5)
    row = np.array([0, 0, 9, 9, 0], dtype=np.float32)
    assert {picker.pick(row, i) for i in range(200)} == {0, 1, 4}


@settings(max_examples=150, deadline=None)
@given(
    window=st.sampled_from([-1, 0, 1, 5]),
    repeat=st.sampled_from([1.0, 2.0]),
    frequency=st.sampled_from([0.0, 1.0]),
    multiplier=st.sampled_from([0.0, 0.7]),
    edits=st.lists(
        st.one_of(st.integers(0, 3), st.floats(0, 1), st.tuples(st.integers(0, 30))), max_size=60
    ),
)
def test_what_is_counted_follows_the_history(window, repeat, frequency, multiplier, edits):
    params = SamplingParams(
        frequency_penalty=frequency,
        repeat_penalty=repeat,
        penalty_last_n=window,
        dry_multiplier=multiplier,
        dry_allowed_length=1,
        dry_breakers=(2,),
    )
    picker = Picker(params, 4, exempt=[3])
    row = np.array([1.2, 1.1, 1.0, 0.9], dtype=np.float32)
    tokens: list[int] = []
    answer = 0
    for edit in edits:
        if isinstance(edit, int):
            tokens.append(edit)
            picker.extend([edit])
        elif isinstance(edit, float):
            del tokens[int(edit * len(tokens)) :]
            picker.truncate(len(tokens))
        else:
            (answer,) = edit
            picker.begin_answer(answer)
        picker._native.check()
        assert picker.length == len(tokens)
        history = twin.History(tokens, answer, [3])
        assert picker.pick(row, 0) == twin.sample(row, params, history, 0)


@pytest.mark.parametrize("length", [-1, 4, 1.5])
def test_a_history_is_not_cut_to_a_length_it_does_not_have(length):
    picker = Picker(SamplingParams(presence_penalty=1.0), 10)
    picker.extend([1, 2, 3])
    with pytest.raises(InvalidArgumentError, match="length"):
        picker.truncate(length)
    assert picker.length == 3


def test_a_refused_history_changes_nothing():
    picker = Picker(SamplingParams(presence_penalty=1.0), 10)
    for tokens in ([3, 10], [-1], [3, 2**31], [1.5], ["a"]):
        with pytest.raises(InvalidArgumentError):
            picker.extend(tokens)
    assert picker.length == 0
    assert picker.pick(np.zeros(10, dtype=np.float32), 0) == 0


@pytest.mark.parametrize(
    "row",
    [
        np.zeros(9, dtype=np.float32),
        np.zeros(10),
        np.zeros((1, 10), dtype=np.float32),
        np.zeros(20, dtype=np.float32)[::2],
        [0.0] * 10,
    ],
    ids=["short", "float64", "matrix", "strided", "list"],
)
def test_a_row_of_another_shape_is_refused(row):
    with pytest.raises(InvalidArgumentError, match="row"):
        Picker(SamplingParams(), 10).pick(row, 0)


def test_a_bias_outside_the_vocabulary_is_refused():
    with pytest.raises(InvalidArgumentError, match=r"token 10, must be 0 \.\. 9"):
        Picker(SamplingParams(logit_bias={10: 1.0}), 10)


@pytest.mark.parametrize("n_vocab", [0, -1, 2**20, True, 10.0])
def test_an_impossible_vocabulary_is_refused(n_vocab):
    with pytest.raises(InvalidArgumentError, match="n_vocab"):
        Picker(SamplingParams(), n_vocab)
