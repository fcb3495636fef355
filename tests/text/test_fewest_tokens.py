"""The lower bound of the number of tokens: never above, and near enough to be of use."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio.text import from_metadata
from support.spm_vocabulary import SPM
from support.vocabularies import vocabulary

SMALL = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "gpt-2",
    "tokenizer.ggml.tokens": ["a", "b", "abab", "<s>"],
    "tokenizer.ggml.merges": ["a b", "ab ab", "a c", "ac b"],
}
NO_BYTES = vocabulary("gemma4") | {
    "tokenizer.ggml.tokens": [
        text.replace("<0x", "<0y") for text in vocabulary("gemma4")["tokenizer.ggml.tokens"]
    ],
    "tokenizer.ggml.token_type": None,
}
TOKENIZERS = [
    from_metadata({key: value for key, value in metadata.items() if value is not None})
    for metadata in (
        vocabulary("pairs-qwen2"),
        vocabulary("holes-llama-bpe"),
        vocabulary("masks-phi-3"),
        vocabulary("gemma4"),
        NO_BYTES,
        SMALL,
        SPM,
        SPM | {"tokenizer.ggml.add_space_prefix": False},
        vocabulary("characters-whitespace"),
        vocabulary("characters-sarvam-moe"),
    )
]
# Characters that are long in bytes, that stand for spaces, for bytes of no text, or are dropped.
CHARACTERS = st.text(st.sampled_from("ab c\n▁語\x14é🙂\udcc0\udc80\udcf0\udcff"), max_size=40)
NAMES = st.sampled_from(["[user]", "<|im_start|>", "[multimodal]", "m_end|>\n\n", "<s>", "▁ab"])


@given(parts=st.lists(CHARACTERS | NAMES | st.sampled_from(["abab" * 9, "▁" * 30, " " * 30])))
@settings(max_examples=150, deadline=None)
def test_no_text_has_fewer_tokens_than_the_bound(parts):
    text = "".join(parts)
    for tokenizer in TOKENIZERS:
        for parse_special in (False, True):
            ids = tokenizer.encode(text, add_special=False, parse_special=parse_special)
            assert tokenizer.fewest_tokens(text) <= len(ids)


@pytest.mark.parametrize("number", [0, 3, 6])
def test_the_bound_of_a_long_text_is_near_its_length_over_that_of_the_longest_token(number):
    tokenizer = TOKENIZERS[number]
    assert tokenizer.fewest_tokens("ab" * 50_000) > 100_000 / 30


def test_bytes_that_are_dropped_do_not_count():
    tokenizer = TOKENIZERS[5]
    assert tokenizer.encode("c" * 99, add_special=False) == []
    assert tokenizer.fewest_tokens("c" * 99) == 0
