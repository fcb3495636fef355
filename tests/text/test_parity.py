"""Token ids are those of llama.cpp: goldens of ``scripts/make_tokenizer_goldens.py``."""

import json
from functools import cache
from pathlib import Path

import pytest

from maglio.text import Tokenizer, from_metadata
from support.vocabularies import VARIANTS, MissingModelError, vocabulary

GOLDENS = Path(__file__).parent.parent / "goldens" / "tokenizer"
TEXTS = json.loads((GOLDENS / "texts.json").read_text())
LOOK_ALIKES = TEXTS["texts"][-TEXTS["look_alikes"] :]


@cache
def tokenizer_of(name: str) -> Tokenizer:
    try:
        return from_metadata(vocabulary(name))
    except MissingModelError as error:
        pytest.skip(str(error))


@pytest.fixture(params=VARIANTS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def tokenizer(name: str) -> Tokenizer:
    return tokenizer_of(name)


@pytest.fixture
def golden(name: str) -> dict:
    return json.loads((GOLDENS / f"{name}.json").read_text())


def differences(
    tokenizer: Tokenizer, texts: list[str], ids: list[list[int]], special: bool
) -> list:
    assert len(texts) == len(ids)
    encoded = [tokenizer.encode(t, add_special=special, parse_special=special) for t in texts]
    return [(t, got, want) for t, got, want in zip(texts, encoded, ids, strict=True) if got != want]


def test_plain_texts_get_the_ids_of_llama_cpp(tokenizer, golden):
    assert differences(tokenizer, TEXTS["texts"], golden["plain"], special=False) == []


def test_texts_with_special_tokens_get_the_ids_of_llama_cpp(tokenizer, golden):
    assert differences(tokenizer, LOOK_ALIKES, golden["special"], special=True) == []


def test_special_ids_are_those_of_llama_cpp(tokenizer, golden):
    assert tokenizer.n_vocab == golden["n_vocab"]
    assert tokenizer.bos_id == golden["bos_id"]
    assert tokenizer.eos_id == golden["eos_id"]
    assert tokenizer.add_bos == golden["add_bos"]
    assert sorted(tokenizer.eog_ids) == golden["eog_ids"]


def test_a_byte_that_smollm2_has_no_token_for_keeps_its_neighbours_apart():
    tokenizer = tokenizer_of("smollm2")
    ids = tokenizer.encode("]\x14}", add_special=False)
    assert [tokenizer.token_bytes(token) for token in ids] == [b"]", b"}"]
    assert tokenizer.encode("]}", add_special=False) == [28852]


def test_escaped_bytes_and_bytes_get_the_same_ids(tokenizer):
    for text in TEXTS["texts"]:
        data = text.encode("utf-8", "surrogateescape")
        assert tokenizer.encode(text) == tokenizer.encode(data)


@pytest.mark.parametrize("name", ["pairs-qwen2", "pairs-default", "gemma3"])
def test_decoding_gives_the_text_back(tokenizer):
    for text in TEXTS["texts"]:
        invalid = any("\ud800" <= c < "\ue000" for c in text)
        if not invalid and "▁" not in text:
            assert tokenizer.decode(tokenizer.encode(text, add_special=False)) == text
