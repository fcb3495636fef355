"""BPE over characters, not bytes: Gemma 4 (``tokenizer.ggml.model = "gemma4"``) and its like."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from tokenizers import Tokenizer

from maglio.text.base import SPACE, SPACE_BYTES, VocabularyTokenizer, utf8_of
from maglio.text.merging import MergingModel
from maglio.text.metadata import Metadata
from maglio.text.pretokenizer import character_rules_of
from maglio.text.utf8 import to_code_points
from maglio.text.vocabulary import Defaults, Vocabulary

_PARTS = re.compile("[\ud800-\udfff]|[^\ud800-\udfff]+")  # `tokenizers` cannot hold surrogates
_GPT2 = Defaults(bos_id=11, eos_id=11, unk_id=None, add_bos=False)
_GEMMA4 = Defaults(bos_id=None, eos_id=None, unk_id=None, add_bos=True)


class CharacterTokenizer(VocabularyTokenizer):
    """Encodes as llama.cpp does where characters merge; unknown ones are spelled in bytes."""

    def __init__(self, metadata: Metadata) -> None:
        model = metadata.text("tokenizer.ggml.model")
        self._name = model if model != "gpt2" else metadata.text("tokenizer.ggml.pre")
        self._rules = character_rules_of(self._name)
        metadata.only("tokenizer.ggml.normalizer.lowercase", False)
        if self._rules.always_bos:  # some converted files say no by mistake
            metadata = metadata.updated({"tokenizer.ggml.add_bos_token": True})
        defaults = _GEMMA4 if model == "gemma4" else _GPT2
        vocabulary = Vocabulary.from_metadata(metadata, defaults)
        super().__init__(vocabulary)
        self._merge_texts = metadata.texts("tokenizer.ggml.merges")
        self._model = MergingModel(
            vocabulary, self._merge_texts, byte_token=_byte_token, byte_fallback=True
        )
        self._tokenizer = Tokenizer(self._model.bpe)
        self._words = re.compile(self._rules.words)

    def _encode_fragment(self, fragment: bytes, *, after_special: bool) -> list[int]:
        if self._rules.escapes_spaces:
            fragment = fragment.replace(b" ", SPACE_BYTES)
        ids: list[int] = []
        for word in self._words.findall(to_code_points(fragment)):
            if self._rules.whole_newlines and word[0] == "\n" and word in self._vocabulary.ids:
                ids.append(self._vocabulary.ids[word])
                continue
            for part in _PARTS.findall(word):
                ids += self._merged(part)
        return ids

    def _merged(self, part: str) -> list[int]:
        if "\ud800" <= part[0] <= "\udfff":
            return self._spell(part)
        return self._model.settled(self._tokenizer.encode(part, add_special_tokens=False).ids)

    def _spell(self, character: str) -> list[int]:
        names = map(_byte_token, character.encode("utf-8", "surrogatepass"))
        return [self._vocabulary.ids[name] for name in names if name in self._vocabulary.ids]

    @cached_property
    def _droppable(self) -> bytes:
        bytes_are_tokens = all(_byte_token(byte) in self._vocabulary.ids for byte in range(256))
        if not bytes_are_tokens or self._model.unknown:
            return bytes(range(256))
        return self._rules.dropped.encode()

    def _normal_bytes(self, text: str) -> bytes:
        return utf8_of(text.replace(SPACE, " ") if self._rules.escapes_spaces else text)

    def _settings(self) -> tuple[object, ...]:
        return (self._name,)

    def _merges(self) -> Sequence[str]:
        return self._merge_texts


def _byte_token(byte: int) -> str:
    return f"<0x{byte:02X}>"
