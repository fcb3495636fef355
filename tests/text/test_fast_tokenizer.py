"""Tokenizers of the ``tokenizers`` library behind our seam."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models

from maglio.errors import InvalidArgumentError, ModelFileError
from maglio.text import ChatTemplate
from maglio.text.fast_tokenizer import FastTokenizer, SpecialIds
from support.fast_tokenizers import byte_level, spaced

TEXTS = st.text(alphabet=st.one_of(st.sampled_from("aent é\n<s>|▁"), st.characters(codec="utf-8")))


def ours(library: Tokenizer, n_vocab: int | None = None) -> FastTokenizer:
    size = library.get_vocab_size(with_added_tokens=True)
    bos, eos = library.token_to_id("<s>"), library.token_to_id("</s>")
    special = SpecialIds(bos=bos, eos=eos, ends=frozenset({eos}))
    return FastTokenizer(library, special, n_vocab=size if n_vocab is None else n_vocab)


KINDS = {
    "bytes": byte_level,
    "prepend": lambda: spaced("prepend"),
    "always": lambda: spaced("always"),
    "first": lambda: spaced("first"),
    "never": lambda: spaced("never"),
}
ALL = {name: ours(make()) for name, make in KINDS.items()}


@pytest.mark.parametrize("kind", KINDS)
@given(text=TEXTS)
def test_the_bytes_of_the_tokens_are_the_text(kind, text):
    tokenizer = ALL[kind]
    part = tokenizer.encode(text, add_special=False, continues=True)
    if kind != "bytes":
        text = text.replace("▁", " ")
    assert b"".join(map(tokenizer.token_bytes, part)) == text.encode()
    assert tokenizer.decode(part, continues=True) == text
    whole = tokenizer.encode(text)
    # Metaspace puts no space before one, and its library's decoding takes that one off as well.
    expected = text.removeprefix(" ") if kind in ("always", "first") else text
    assert tokenizer.decode(whole) == expected
    assert tokenizer.fewest_tokens(text) <= len(whole)


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_those_of_the_library(kind):
    library, tokenizer = KINDS[kind](), ALL[kind]
    for text in ("an ant</s> sat<s> here", "  two", "é<think>"):
        assert tokenizer.encode(text, parse_special=True) == library.encode(text).ids
        assert not set(tokenizer.encode(text)) & set(tokenizer.control_tokens.values())


@pytest.mark.parametrize(
    ("kind", "whole", "part"),
    [
        ("prepend", b" a", b" a"),
        ("always", b" a", b" a"),
        ("first", b" a", b"a"),
        ("never", b"a", b"a"),
        ("bytes", b"a", b"a"),
    ],
)
def test_a_space_comes_where_the_library_puts_one(kind, whole, part):
    tokenizer = ALL[kind]
    assert tokenizer.adds_space_prefix == whole.startswith(b" ")
    for expected, options in (
        (whole, {}),
        (part, {"add_special": False}),
        (b"a", {"continues": True}),
    ):
        ids = tokenizer.encode("a", **options)
        assert b"".join(map(tokenizer.token_bytes, ids)) == expected


def test_bos_is_added_where_the_library_adds_it():
    assert not ours(byte_level()).add_bos
    tokenizer = ours(byte_level(adds_bos=True))
    assert tokenizer.add_bos
    assert tokenizer.encode("an")[0] == tokenizer.bos_id
    assert tokenizer.encode("an", add_special=False) == tokenizer.encode("an")[1:]


def test_a_template_writes_control_tokens_and_a_message_does_not():
    tokenizer = ours(byte_level())
    template = ChatTemplate(None, tokenizer)
    prompt = template.render([{"role": "user", "content": "<|im_end|>"}])
    ids = template.encode(prompt)
    assert ids.count(tokenizer.control_tokens["<|im_end|>"]) == 1
    assert ids.count(tokenizer.control_tokens["<|im_start|>"]) == 2


def test_tokens_that_were_added_as_text_are_text():
    tokenizer = ours(byte_level())
    [token] = tokenizer.encode("<think>")
    assert tokenizer.token_bytes(token) == b"<think>"
    assert not tokenizer.is_control(token)
    assert tokenizer.is_control(tokenizer.bos_id)


def test_ids_above_the_tokenizers_have_no_text():
    library = byte_level()
    size = library.get_vocab_size(with_added_tokens=True)
    tokenizer = ours(library, size + 7)
    assert tokenizer.n_vocab == size + 7
    assert tokenizer.decode([size, size + 6]) == ""
    with pytest.raises(InvalidArgumentError, match="outside the vocabulary"):
        tokenizer.token_bytes(size + 7)


def test_added_tokens_above_the_models_are_left_out():
    library = byte_level()
    tokenizer = ours(library, library.token_to_id("<|im_end|>"))
    assert "<|im_end|>" not in tokenizer.control_tokens
    assert max(tokenizer.encode("<|im_end|>", parse_special=True)) < tokenizer.n_vocab
    with pytest.raises(ModelFileError, match="do not belong together"):
        ours(library, 100)


def test_a_tokenizer_without_bytes_is_refused():
    library = Tokenizer(models.WordLevel({"a": 0, "<unk>": 1}, unk_token="<unk>"))
    library.decoder = decoders.WordPiece()
    with pytest.raises(ModelFileError, match="decodes by WordPiece"):
        FastTokenizer(library, SpecialIds(), n_vocab=2)


def test_fingerprints_tell_tokenizers_apart():
    prints = {tokenizer.fingerprint for tokenizer in ALL.values()}
    assert len(prints) == len(ALL)
    assert ours(byte_level()).fingerprint == ALL["bytes"].fingerprint
