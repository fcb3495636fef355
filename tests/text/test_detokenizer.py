import pytest
from hypothesis import given
from hypothesis import strategies as st

from maglio.errors import InvalidArgumentError
from maglio.text import Detokenizer, from_metadata
from support.spm_vocabulary import SPM
from support.vocabularies import vocabulary

PAIRS = from_metadata(vocabulary("pairs-qwen2"))
PREFIXED = from_metadata(SPM)


def one_by_one(tokenizer, ids, **options) -> list[str]:
    detokenizer = Detokenizer(tokenizer, **options)
    return [*map(detokenizer.push, ids), detokenizer.flush()]


@given(st.lists(st.integers(0, PAIRS.n_vocab - 1), max_size=20))
def test_pieces_join_to_the_text_of_all_bytes(ids):
    data = b"".join(PAIRS.token_bytes(token) for token in ids if not PAIRS.is_control(token))
    assert "".join(one_by_one(PAIRS, ids)) == data.decode("utf-8", "replace")
    assert PAIRS.decode(ids) == data.decode("utf-8", "replace")


@given(st.text(max_size=20).filter(lambda text: "▁" not in text))  # it decodes to a space
def test_no_piece_of_a_valid_text_has_a_broken_character(text):
    pieces = one_by_one(PREFIXED, PREFIXED.encode(text, add_special=False))
    assert "".join(pieces) == text


def test_an_incomplete_character_is_held_back_until_complete():
    ids = PREFIXED.encode("é🙂", add_special=False)  # the vocabulary has single bytes only
    assert one_by_one(PREFIXED, ids) == ["", "", "é", "", "", "", "🙂", ""]


def test_an_incomplete_character_at_the_end_is_a_replacement():
    ids = PREFIXED.encode("🙂", add_special=False)[:-1]
    assert "".join(one_by_one(PREFIXED, ids)) == "\ufffd"


def test_control_tokens_are_shown_only_on_request():
    ids = PAIRS.encode("<|im_start|>user", parse_special=True)
    assert PAIRS.decode(ids) == "user"
    assert PAIRS.decode(ids, show_control=True) == "<|im_start|>user"
    assert "".join(one_by_one(PAIRS, ids, show_control=True)) == "<|im_start|>user"


def test_the_space_before_a_text_is_taken_off_once():
    assert PREFIXED.decode(PREFIXED.encode("ab")) == "ab"
    assert PREFIXED.decode(PREFIXED.encode(" ab")) == " ab"
    assert PREFIXED.decode(PREFIXED.encode("ab"), continues=True) == " ab"


@pytest.mark.parametrize("token", [-1, PAIRS.n_vocab, 1 << 40])
def test_ids_outside_the_vocabulary_are_refused(token):
    with pytest.raises(InvalidArgumentError, match="outside the vocabulary"):
        PAIRS.decode([token])
    with pytest.raises(InvalidArgumentError, match="outside the vocabulary"):
        PAIRS.token_bytes(token)
