"""Token ids from outside: what counts as one, and what is said about the rest."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maglio.decode.drafter import StreamView
from maglio.errors import InvalidArgumentError
from maglio.tokens import ANY_VOCABULARY, checked_tokens, is_token, token_array

NO_TOKENS = [True, False, np.True_, 1.0, np.float32(1), "1", b"1", None, [1], 2 + 0j, float("nan")]
OUT_OF_RANGE = [-1, 10, 2**31, 2**32 + 5, -(2**32) + 5, 2**70, np.int64(-1), np.uint32(10)]


@pytest.mark.parametrize("value", [0, 9, np.int64(3), np.uint8(9), np.int32(0)])
def test_every_integer_of_the_vocabulary_is_a_token(value):
    assert is_token(value, 10)
    assert checked_tokens("ids", [value], 10) == [int(value)]
    assert token_array([value], 10).tolist() == [int(value)]


@pytest.mark.parametrize("value", [*NO_TOKENS, *OUT_OF_RANGE], ids=repr)
def test_nothing_else_is(value):
    assert not is_token(value, 10)


@pytest.mark.parametrize("check", [checked_tokens, lambda n, t, v: token_array(t, v, name=n)])
@pytest.mark.parametrize("value", [*NO_TOKENS, *OUT_OF_RANGE], ids=repr)
def test_the_first_bad_id_is_named(check, value):
    for more in ([], [5], [-7]):
        with pytest.raises(InvalidArgumentError, match=r"^prompt\[2\] is .* from 0 to 9$"):
            check("prompt", [3, 4, value, *more], 10)


@pytest.mark.parametrize("value", [v for v in OUT_OF_RANGE if -(2**63) <= v < 2**63], ids=repr)
def test_the_first_bad_id_of_an_array_is_named(value):
    with pytest.raises(InvalidArgumentError, match=r"^prompt\[2\] is .* from 0 to 9$"):
        token_array(np.array([3, 4, value, -7], dtype=np.int64), 10, name="prompt")


def test_a_checked_list_holds_plain_ints():
    checked = checked_tokens("ids", (np.int64(token) for token in (1, 2)), 10)
    assert checked == [1, 2]
    assert [type(token) for token in checked] == [int, int]
    assert checked_tokens("ids", [], 10) == []


@pytest.mark.parametrize("tokens", [3, None, 1.5])
def test_what_is_no_sequence_is_refused(tokens):
    for check in (lambda: checked_tokens("ids", tokens, 10), lambda: token_array(tokens, 10)):
        with pytest.raises(InvalidArgumentError, match="must be a sequence of token ids"):
            check()


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint8, np.dtype(">i4")])
def test_arrays_of_any_integer_type_are_tokens(dtype):
    found = token_array(np.array([1, 2, 3], dtype=dtype)[::-1])
    assert found.dtype == np.int32
    assert found.flags.c_contiguous
    assert found.tolist() == [3, 2, 1]


@pytest.mark.parametrize("dtype", [np.bool_, np.float32, object, "U1"])
def test_arrays_of_other_types_are_refused(dtype):
    with pytest.raises(InvalidArgumentError, match=r"ids is an array of .* must be a flat"):
        token_array(np.array([1, 0], dtype=dtype), name="ids")


@pytest.mark.parametrize("shape", [(), (1, 2), (2, 1)])
def test_arrays_of_other_shapes_are_refused(shape):
    with pytest.raises(InvalidArgumentError, match="must be a flat sequence"):
        token_array(np.zeros(shape, dtype=np.int32))


@pytest.mark.parametrize("bad", [-1, -(2**32) + 5, 2**31, 2**32 + 5])
def test_ids_out_of_range_never_wrap_around(bad):
    for tokens in ([3, bad], np.array([3, bad], dtype=np.int64)):
        with pytest.raises(InvalidArgumentError, match=r"tokens\[1\] is"):
            token_array(tokens)


def test_without_a_vocabulary_every_id_of_31_bits_is_a_token():
    assert token_array([0, 2**31 - 1]).tolist() == [0, ANY_VOCABULARY - 1]


def test_an_int32_array_is_not_copied():
    ids = np.array([1, 2], dtype=np.int32)
    assert token_array(ids) is ids


def test_no_tokens_are_an_empty_int32_array():
    for empty in ([], (), np.array([], dtype=np.int64), range(0)):
        found = token_array(empty, 10)
        assert (found.dtype, found.shape) == (np.int32, (0,))


KINDS = (
    list,
    tuple,
    np.array,
    StreamView,
    bytes,
    bytearray,
    lambda tokens: array("i", tokens),
    lambda tokens: array("q", tokens),
)


@pytest.mark.parametrize("kind", KINDS)
def test_every_sequence_of_ids_is_read_as_its_elements(kind):
    tokens = [1, 0, 0, 7, 200, 5, 0, 1]
    assert token_array(kind(tokens), 256).tolist() == tokens
    assert checked_tokens("tokens", kind(tokens), 256) == tokens
    assert token_array(kind(tokens)).tolist() == tokens
    with pytest.raises(InvalidArgumentError, match=r"tokens\[4\] is "):
        token_array(kind(tokens), 200)


def test_what_was_given_is_not_held_on_to():
    given = array("i", [1, 2])
    found = token_array(given)
    given.append(3)
    given[0] = 9
    assert found.tolist() == [1, 2]


@given(st.lists(st.one_of(st.integers(-3, 12), st.booleans(), st.just(2.0)), max_size=8))
def test_the_quick_check_and_the_thorough_one_agree(tokens):
    def outcome(check):
        try:
            return check()
        except InvalidArgumentError as error:
            return str(error)

    expected = outcome(lambda: checked_tokens("tokens", tokens, 10))
    assert outcome(lambda: token_array(tokens, 10).tolist()) == expected
