import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from maglio.errors import InvalidArgumentError, ModelFileError
from maglio.text import from_metadata
from maglio.text.pretokenizer import merges_characters, pretokenizer_names, pretokenizer_of
from support.spm_vocabulary import SPM
from support.vocabularies import vocabulary

PAIRS = vocabulary("pairs-qwen2")
BPE = from_metadata(PAIRS)


def spm(**changes) -> dict[str, object]:
    """The small SentencePiece vocabulary with other metadata: a name without its prefix each."""
    return SPM | {f"tokenizer.ggml.{name}": value for name, value in changes.items()}


def small_bpe(**changes) -> dict[str, object]:
    """A three-token byte-level vocabulary, with other metadata."""
    values = {"model": "gpt2", "pre": "gpt-2", "tokens": ["a", "b", "ab"], "merges": ["a b"]}
    return {f"tokenizer.ggml.{name}": value for name, value in (values | changes).items()}


def texts_of(tokenizer, ids) -> list[bytes]:
    return [tokenizer.token_bytes(token) for token in ids]


def test_control_tokens_are_plain_text_unless_parsed():
    plain = BPE.encode("<|im_start|>")
    assert not any(map(BPE.is_control, plain))
    assert texts_of(BPE, BPE.encode("<|im_start|>", parse_special=True)) == [b"<|im_start|>"]


def test_user_defined_tokens_are_matched_always():
    assert texts_of(BPE, BPE.encode("[multimodal]x")) == [b"[multimodal]", b"x"]


def test_a_longer_special_token_wins_over_one_that_begins_further_left():
    ids = BPE.encode("one Ends here")
    assert b"Ends her" in texts_of(BPE, ids)
    assert b"ne Ends" not in texts_of(BPE, ids)


def test_higher_scores_merge_first_and_the_leftmost_of_equals():
    tokenizer = from_metadata(spm(add_space_prefix=False))
    assert texts_of(tokenizer, tokenizer.encode("abc", add_special=False)) == [b"a", b"bc"]
    tied = spm(tokens=["<unk>", *"abc", "ab", "bc"], scores=np.array([0, -9, -9, -9, -1, -1.0]))
    tied["tokenizer.ggml.token_type"] = np.array([2, 1, 1, 1, 1, 1])
    tied["tokenizer.ggml.bos_token_id"] = 0
    tokenizer = from_metadata(tied | {"tokenizer.ggml.add_space_prefix": False})
    assert texts_of(tokenizer, tokenizer.encode("abc", add_special=False)) == [b"ab", b"c"]


def test_a_space_goes_before_a_text_and_after_a_special_token():
    tokenizer = from_metadata(spm())
    ids = tokenizer.encode("ab[user]ab")
    assert texts_of(tokenizer, ids) == [b"<s>", b" ab", b"[user]", b" ab"]


def test_characters_without_a_token_are_spelled_in_bytes():
    tokenizer = from_metadata(spm(add_space_prefix=False))
    assert texts_of(tokenizer, tokenizer.encode("é", add_special=False)) == [b"\xc3", b"\xa9"]


def test_bytes_without_a_token_are_the_unknown_token():
    no_bytes = spm(tokens=["<unk>", "a"], scores=np.zeros(2), token_type=np.array([2, 1]))
    tokenizer = from_metadata(no_bytes | {"tokenizer.ggml.add_bos_token": False})
    assert tokenizer.encode("a!") == [0, 0, 0, 1, 0]  # the space prefix has three bytes


@pytest.mark.parametrize(("pre", "ids"), [("llama-bpe", [2]), ("qwen2", [0, 1])])
def test_only_llama_takes_a_word_that_no_merge_makes(pre, ids):
    tokenizer = from_metadata(small_bpe(pre=pre, merges=[], add_bos_token=False))
    assert tokenizer.encode("ab") == ids


@pytest.mark.parametrize("merge", ["a x", "x a", "b a", "x y", "a "])
def test_a_merge_of_or_to_an_unknown_token_only_takes_a_rank(merge):
    tokenizer = from_metadata(small_bpe(merges=[merge, "a b"]))
    assert tokenizer.encode("abba") == [2, 1, 0]


@pytest.mark.parametrize("pre", ["gpt-2", "glm4"])  # glm4 takes words that are tokens whole
def test_merging_passes_through_texts_that_are_no_tokens(pre):
    metadata = small_bpe(tokens=[*"abc", "abc"], merges=["a b", "ab c"], pre=pre)
    tokenizer = from_metadata(metadata)
    assert tokenizer.encode("abc") == [3]
    assert tokenizer.encode("ab") == [0, 1]  # spelled in bytes
    assert tokenizer.encode("\ud800abc".encode("utf-8", "surrogatepass")) == [3]


def test_a_word_that_is_no_token_is_not_taken_whole():
    tokens = [*"abc", "bc"]
    metadata = small_bpe(tokens=tokens, merges=["b c", "ab c", "a b"], pre="glm4")
    assert from_metadata(metadata).encode("abc") == [0, 3]


def test_a_byte_without_a_token_is_dropped_after_its_neighbours_could_merge():
    tokenizer = from_metadata(small_bpe(tokens=["]", "}", "]}"], merges=["] }"]))
    assert tokenizer.encode("]\x14}") == [0, 1]  # one word, as these three are no letters
    assert tokenizer.encode("\x14]}\x14") == [2]


def test_what_merged_to_no_token_is_looked_for_byte_by_byte():
    # U+9440 is the bytes E9 91 80, written as these three characters; what the first two merge to
    # would be spelled C3 A9 C4 B3, and the token of a byte C3 is not the text of that one byte.
    metadata = small_bpe(tokens=["é", "ĳ", "Ģ", "Ã"], merges=["é ĳ"])
    assert from_metadata(metadata).encode("\u9440") == [2]


@pytest.mark.parametrize(
    ("changes", "role", "token"),
    [
        ({"bos_token_id": 2**32 - 1}, "bos_id", None),
        ({"eos_token_id": 2**32 - 1}, "eos_id", None),
        ({"unknown_token_id": 2**32 - 1}, "unk_id", None),
        ({"bos_token_id": 2**32 - 1, "tokens": [*"abcdefghijkl"], "merges": []}, "bos_id", 11),
    ],
)
def test_an_id_of_all_ones_is_none_at_all(changes, role, token):
    metadata = small_bpe(**changes)
    assert getattr(from_metadata(metadata), role) == token
    assert from_metadata(metadata | {"tokenizer.ggml.eot_token_id": 2**32 - 1}).n_vocab


@pytest.mark.parametrize("name", [n for n in pretokenizer_names() if not merges_characters(n)])
def test_every_pretokenizer_cuts_every_text_into_all_of_it(name):
    texts = ["I'LL say: 1234 words,\n\n  and\tmore… ΩΣ éé 中文!\r\n ", "'s 's", "   ", "\n \n"]
    splits = pre_tokenizers.Sequence(list(pretokenizer_of(name).splits()))
    for text in texts:
        assert "".join(word for word, _ in splits.pre_tokenize_str(text)) == text


def test_bos_and_eos_are_added_as_the_model_asks():
    tokenizer = from_metadata(spm(add_eos_token=True))
    bos, *_, eos = tokenizer.encode("ab")
    assert (bos, eos) == (tokenizer.bos_id, tokenizer.eos_id) == (1, 2)
    assert tokenizer.encode("ab", add_special=False) == tokenizer.encode("ab")[1:-1]
    assert tokenizer.encode("") == [1, 2]


@given(st.binary(max_size=30))
def test_any_bytes_can_be_encoded(data):
    for tokenizer in (BPE, from_metadata(spm())):
        assert tokenizer.encode(data) == tokenizer.encode(data.decode("utf-8", "surrogateescape"))


@given(st.text(max_size=30))
def test_any_text_comes_back(text):
    assert BPE.decode(BPE.encode(text)) == text


@pytest.mark.parametrize("text", ["\ud800", "ok \udfff", "\ud83d\ude42"])
def test_lone_surrogates_are_refused(text):
    with pytest.raises(InvalidArgumentError, match="lone surrogate U\\+D"):
        BPE.encode(text)


def test_long_runs_of_one_character_keep_their_length():
    for tokenizer in (BPE, from_metadata(spm())):
        for text in (" " * 100_000, "a" * 100_000, "\n" * 100_000):
            assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_file_without_a_vocabulary_takes_ids_only():
    metadata = {
        "tokenizer.ggml.model": "none",
        "general.architecture": "qwen3",
        "qwen3.vocab_size": 100,
    }
    tokenizer = from_metadata(metadata)
    assert tokenizer.n_vocab == 100
    assert tokenizer.decode([1, 2, 3]) == ""
    with pytest.raises(InvalidArgumentError, match="has no vocabulary"):
        tokenizer.encode("text")


FIRST_BYTE_NORMAL = SPM["tokenizer.ggml.token_type"].copy()
FIRST_BYTE_NORMAL[4] = 1

FINGERPRINTED = {
    "same": spm(),
    "another score": spm(scores=SPM["tokenizer.ggml.scores"] * 2),
    "another kind": spm(token_type=FIRST_BYTE_NORMAL),
    "another bos": spm(bos_token_id=2),
    "no bos": spm(add_bos_token=False),
    "no space": spm(add_space_prefix=False),
    "bpe": small_bpe(),
    "other words": small_bpe(pre="qwen2"),
    "other tokens": small_bpe(tokens=["a", "b", "ab", "c"]),
    "other merges": small_bpe(tokens=["a", "b", "ab"], merges=[]),
}


def test_fingerprints_are_stable_and_tell_vocabularies_apart():
    fingerprints = {name: from_metadata(m).fingerprint for name, m in FINGERPRINTED.items()}
    assert len(set(fingerprints.values())) == len(FINGERPRINTED)
    assert from_metadata(spm()).fingerprint == fingerprints["same"]


HOSTILE = {
    "no model": ({}, "tokenizer model ''"),
    "model of a wrong type": (small_bpe(model=7), "should be a string"),
    "unknown model": (small_bpe(model="t5"), "tokenizer model 't5'; supported are"),
    "unknown pre-tokenizer": (small_bpe(pre="kimi-k9"), "pre-tokenizer 'kimi-k9'; supported are"),
    "absurd pre-tokenizer": (small_bpe(pre="x" * 9999), "xxx'; supported are default, gpt-2"),
    "no tokens": ({"tokenizer.ggml.model": "llama"}, "lacks tokenizer.ggml.tokens"),
    "empty vocabulary": (small_bpe(tokens=[], merges=[]), "must not be empty"),
    "tokens of a wrong type": (small_bpe(tokens="abc"), "should be a list of strings"),
    "a token of a wrong type": (small_bpe(tokens=["a", 5]), "should be a list of strings"),
    "the same token twice": (small_bpe(tokens=["a", "b", "ab", "a"]), "no token may occur twice"),
    "no merges": (small_bpe(merges=None), "lacks tokenizer.ggml.merges"),
    "merge of one token": (small_bpe(merges=["ab"]), "merge 0 is 'ab'"),
    "merge that is no text": (small_bpe(merges=["a \ud800"]), "merges do not fit"),
    "token that is no text": (small_bpe(tokens=["a", "b", "ab", "\ud800"]), "vocabulary"),
    "escaped token": (small_bpe(tokens=["a", "b", "ab", "\udcff"]), "vocabulary"),
    "control token that is no text": (
        small_bpe(tokens=["a", "b", "ab", "\ud800"], token_type=np.array([1, 1, 1, 3])),
        "which is not text",
    ),
    "too few kinds": (small_bpe(token_type=np.array([1])), "has 1 entries for 3 tokens"),
    "kinds of a wrong type": (small_bpe(token_type="x"), "array of numbers"),
    "kinds as texts": (small_bpe(token_type=np.array(["1", "1", "1"])), "array of numbers"),
    "too many scores": (spm(scores=np.zeros(269)), "has 269 entries for 268 tokens"),
    "scores of a wrong type": (spm(scores=[0.0] * 268), "array of numbers"),
    "two-dimensional scores": (spm(scores=np.zeros((268, 1))), "array of numbers"),
    "NaN score": (spm(scores=np.full(268, np.nan)), "has a NaN"),
    "bos out of range": (small_bpe(bos_token_id=3), "is 3, but the vocabulary has ids 0 to 2"),
    "negative eos": (small_bpe(eos_token_id=-1), "is -1, but the vocabulary has ids 0 to 2"),
    "eot out of range": (small_bpe(eot_token_id=1 << 40), "but the vocabulary has ids"),
    "bos of a wrong type": (small_bpe(bos_token_id="a"), "should be an integer"),
    "add_bos of a wrong type": (small_bpe(add_bos_token=1), "should be a bool"),
    "bos wanted but missing": (small_bpe(add_bos_token=True), "names none"),
    "byte token of a wrong form": (
        small_bpe(tokens=["a", "b", "ab", "<0xZZ>"], token_type=np.array([1, 1, 1, 6])),
        "byte token 3 is '<0xZZ>'",
    ),
}


@pytest.mark.parametrize(("metadata", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_metadata_is_refused_by_name(metadata, message):
    with pytest.raises(ModelFileError, match=message.replace("[", r"\[")):
        from_metadata(metadata)


VALUES = st.one_of(
    st.none(),
    st.integers(-5, 300),
    st.booleans(),
    st.floats(),
    st.sampled_from(["", "llama", "gpt2", "none", "qwen2", "default"]),
    st.lists(st.text("ab \ud800\udcff", max_size=4), max_size=5),
    st.lists(st.integers(-9, 9), max_size=5).map(np.array),
)


@given(st.sampled_from([SPM, small_bpe()]), st.data())
def test_no_metadata_raises_anything_else(metadata, data):
    key = data.draw(st.sampled_from([*metadata, "tokenizer.ggml.bos_token_id"]))
    try:
        tokenizer = from_metadata(metadata | {key: data.draw(VALUES)})
    except ModelFileError:
        return
    if tokenizer.n_vocab:
        tokenizer.encode("ab", parse_special=True)
        tokenizer.decode(range(tokenizer.n_vocab))
        assert tokenizer.fingerprint


def test_white_space_is_left_out_where_a_model_knows_none():
    tokenizer = from_metadata(vocabulary("characters-whitespace"))
    text = "\u3000 ab\u00a0\u2028é\n\t<|im_end|> \x1f "
    expected = [b"ab", "é".encode(), b"<|im_end|>", b"\x1f"]
    assert texts_of(tokenizer, tokenizer.encode(text, parse_special=True)) == expected
    assert tokenizer.fewest_tokens(" \n\u3000" * 99) == 0


def test_a_vocabulary_that_wants_small_letters_is_refused():
    metadata = vocabulary("characters-whitespace")
    with pytest.raises(ModelFileError, match=r"normalizer\.lowercase is True"):
        from_metadata(metadata | {"tokenizer.ggml.normalizer.lowercase": True})
