"""Gemma 4 vocabularies (``tokenizer.ggml.model = "gemma4"``): BPE over characters, not bytes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from tokenizers import Tokenizer

from maglio.text.base import SPACE, SPACE_BYTES, VocabularyTokenizer, utf8_of
from maglio.text.merging import MergingModel
from maglio.text.metadata import Metadata
from maglio.text.utf8 import to_code_points
from maglio.text.vocabulary import Defaults, Vocabulary

# Merges never cross a newline; `tokenizers` cannot hold a lone surrogate.
_PIECES = re.compile("\n+|[\ud800-\udfff]|[^\n\ud800-\udfff]+")


class Gemma4Tokenizer(VocabularyTokenizer):
    """Encodes as llama.cpp does: spaces are U+2581 and unknown characters are spelled in bytes."""

    def __init__(self, metadata: Metadata) -> None:
        # llama.cpp adds BOS whatever the file says: some converted files say no by mistake.
        metadata = metadata.updated({"tokenizer.ggml.add_bos_token": True})
        defaults = Defaults(bos_id=None, eos_id=None, unk_id=None, add_bos=True)
        vocabulary = Vocabulary.from_metadata(metadata, defaults)
        super().__init__(vocabulary)
        self._merge_texts = metadata.texts("tokenizer.ggml.merges")
        self._model = MergingModel(
            vocabulary, self._merge_texts, byte_token=_byte_token, byte_fallback=True
        )
        self._tokenizer = Tokenizer(self._model.bpe)

    def _encode_fragment(self, fragment: bytes, *, after_special: bool) -> list[int]:
        ids: list[int] = []
        for piece in _PIECES.findall(to_code_points(fragment.replace(b" ", SPACE_BYTES))):
            if "\ud800" <= piece[0] <= "\udfff":
                ids += self._spell(piece)
            elif piece[0] == "\n" and piece in self._vocabulary.ids:
                ids.append(self._vocabulary.ids[piece])
            else:
                pieces = self._tokenizer.encode(piece, add_special_tokens=False).ids
                ids += self._model.settled(pieces)
        return ids

    def _spell(self, character: str) -> list[int]:
        names = map(_byte_token, character.encode("utf-8", "surrogatepass"))
        return [self._vocabulary.ids[name] for name in names if name in self._vocabulary.ids]

    @cached_property
    def _droppable(self) -> bytes:
        bytes_are_tokens = all(_byte_token(byte) in self._vocabulary.ids for byte in range(256))
        return b"" if bytes_are_tokens and not self._model.unknown else bytes(range(256))

    def _normal_bytes(self, text: str) -> bytes:
        return utf8_of(text.replace(SPACE, " "))

    def _settings(self) -> tuple[object, ...]:
        return ("gemma4",)

    def _merges(self) -> Sequence[str]:
        return self._merge_texts


def _byte_token(byte: int) -> str:
    return f"<0x{byte:02X}>"
