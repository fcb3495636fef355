"""SentencePiece vocabularies (``tokenizer.ggml.model = "llama"``): merging by token score."""

from __future__ import annotations

import numpy as np

from maglio._core import SpmModel
from maglio.text.base import SPACE, SPACE_BYTES, VocabularyTokenizer, pack, utf8_of
from maglio.text.metadata import Metadata
from maglio.text.vocabulary import Defaults, Vocabulary


class SpmTokenizer(VocabularyTokenizer):
    """Encodes as llama.cpp's SPM tokenizer does; spaces are U+2581 in its tokens."""

    def __init__(self, metadata: Metadata) -> None:
        defaults = Defaults(bos_id=1, eos_id=2, unk_id=0, add_bos=True)
        vocabulary = Vocabulary.from_metadata(metadata, defaults)
        super().__init__(vocabulary)
        self.adds_space_prefix = metadata.flag("tokenizer.ggml.add_space_prefix", True)
        blob, offsets = pack(vocabulary.tokens)
        self._model = SpmModel(blob, offsets, vocabulary.scores, _byte_ids(vocabulary))

    def _encode_fragment(self, fragment: bytes, *, after_special: bool) -> list[int]:
        if self.adds_space_prefix and after_special:
            fragment = b" " + fragment
        return self._model.encode(fragment.replace(b" ", SPACE_BYTES))

    def _normal_bytes(self, text: str) -> bytes:
        return utf8_of(text.replace(SPACE, " "))

    def _settings(self) -> tuple[object, ...]:
        return ("spm",)


def _byte_ids(vocabulary: Vocabulary) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Return the token of each byte, int32 ``(256,)``: ``<0x41>``, else ``A``, else unknown.

    llama.cpp fails when it meets a byte without a token; here such a byte is the unknown token
    (token 0 where the model file names none).
    """
    ids = vocabulary.ids
    unknown = vocabulary.unk_id or 0
    fallback = [ids.get(chr(byte), unknown) if byte < 0x80 else unknown for byte in range(256)]
    return np.array([ids.get(f"<0x{byte:02X}>", fallback[byte]) for byte in range(256)], np.int32)
