"""Byte-level BPE vocabularies (``tokenizer.ggml.model = "gpt2"``), through ``tokenizers``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from tokenizers import Tokenizer, pre_tokenizers

from maglio.text.base import VocabularyTokenizer, utf8_of
from maglio.text.merging import MergingModel
from maglio.text.metadata import Metadata
from maglio.text.pretokenizer import pretokenizer_of
from maglio.text.utf8 import to_code_points
from maglio.text.vocabulary import Defaults, Vocabulary

_SURROGATE = re.compile("[\ud800-\udfff]")
_PRIVATE_USE = "\ue000"  # in no class of any pre-tokenizer, like a surrogate


def _byte_characters() -> list[str]:
    """Return the printable character that stands for each byte (GPT-2's ``bytes_to_unicode``)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    codes = {byte: byte for byte in printable} | {byte: 256 + i for i, byte in enumerate(others)}
    return [chr(codes[byte]) for byte in range(256)]


CHARACTER_OF = _byte_characters()
BYTE_OF = {character: byte for byte, character in enumerate(CHARACTER_OF)}


class BpeTokenizer(VocabularyTokenizer):
    """Encodes as llama.cpp's BPE tokenizer does."""

    def __init__(self, metadata: Metadata) -> None:
        self._name = metadata.text("tokenizer.ggml.pre", "default")
        pretokenizer = pretokenizer_of(self._name)
        defaults = Defaults(
            bos_id=pretokenizer.bos_id, eos_id=11, unk_id=None, add_bos=pretokenizer.add_bos
        )
        vocabulary = Vocabulary.from_metadata(metadata, defaults)
        super().__init__(vocabulary)
        self._merge_texts = metadata.texts("tokenizer.ggml.merges")
        self._model = MergingModel(
            vocabulary,
            self._merge_texts,
            alphabet=CHARACTER_OF,
            byte_token=_single_byte,
            ignore_merges=pretokenizer.ignore_merges,
        )
        self._split = pre_tokenizers.Sequence(list(pretokenizer.splits()))
        self._tokenizer = Tokenizer(self._model.bpe)
        self._tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [self._split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        )

    def _encode_fragment(self, fragment: bytes, *, after_special: bool) -> list[int]:
        text = to_code_points(fragment)
        # `tokenizers` cannot hold encoded surrogates.
        if self._model.needs_words or _SURROGATE.search(text):
            return self._encode_by_words(text)
        return self._model.settled(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def _encode_by_words(self, text: str) -> list[int]:
        ids: list[int] = []
        for _, (begin, end) in self._split.pre_tokenize_str(_SURROGATE.sub(_PRIVATE_USE, text)):
            word = text[begin:end].encode("utf-8", "surrogatepass")
            ids += self._model.tokenize("".join(CHARACTER_OF[byte] for byte in word))
        return ids

    @cached_property
    def _droppable(self) -> bytes:
        characters = set().union(*self._model.unknown)
        return bytes(BYTE_OF[character] for character in characters & BYTE_OF.keys())

    def _normal_bytes(self, text: str) -> bytes:
        try:
            return bytes([BYTE_OF[character] for character in text])
        except KeyError:  # not byte-level: a token added as plain text
            return utf8_of(text)

    def _settings(self) -> tuple[object, ...]:
        return ("bpe", self._name)

    def _merges(self) -> Sequence[str]:
        return self._merge_texts


def _single_byte(byte: int) -> str:
    """Return the text of that one byte; none is valid UTF-8 beyond ASCII."""
    return chr(byte) if byte < 0x80 else ""
