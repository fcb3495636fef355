"""llama.cpp's own tokenizer, for vocabularies that Maglio does not know.

Boundary: text to ids and back, through the library. Computes nothing with the model.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

import llama_cpp
import numpy as np

from maglio.engine.llama_cpp.model import LlamaModel
from maglio.errors import InvalidArgumentError
from maglio.text import Detokenizer
from maglio.text.utf8 import to_bytes

_LOSSLESS = (
    llama_cpp.LLAMA_VOCAB_TYPE_BPE,
    llama_cpp.LLAMA_VOCAB_TYPE_RWKV,
    llama_cpp.LLAMA_VOCAB_TYPE_PLAMO2,
)
"""Kinds whose tokens spell every byte of a text."""

_PIECE = 256  # bytes that most tokens have less than


class LlamaCppTokenizer:
    """See :class:`maglio.text.Tokenizer`.

    Args:
        model: a loaded model; it lives as long.
        metadata: of its file.
    """

    def __init__(self, model: LlamaModel, metadata: Mapping[str, object]) -> None:
        self._model = model
        self._vocabulary = model.vocabulary
        self._metadata = {k: v for k, v in metadata.items() if k.startswith("tokenizer.ggml.")}
        self.n_vocab = model.n_vocab
        self.bos_id = self._or_none(llama_cpp.llama_vocab_bos(self._vocabulary))
        self.eos_id = self._or_none(llama_cpp.llama_vocab_eos(self._vocabulary))
        self.pad_id = self._or_none(llama_cpp.llama_vocab_pad(self._vocabulary))
        unknown = metadata.get("tokenizer.ggml.unknown_token_id")
        self.unk_id = self._or_none(unknown if isinstance(unknown, int) else -1)
        self.add_bos = bool(llama_cpp.llama_vocab_get_add_bos(self._vocabulary))
        self._add_eos = bool(llama_cpp.llama_vocab_get_add_eos(self._vocabulary))
        begin = b"".join(map(self.token_bytes, self.encode("a", add_special=False)))
        self.adds_space_prefix = begin.startswith(b" ")

    @cached_property
    def eog_ids(self) -> frozenset[int]:
        """Every token that ends a generation."""
        ends = (i for i in range(self.n_vocab) if llama_cpp.llama_vocab_is_eog(self._vocabulary, i))
        return frozenset(ends)

    @cached_property
    def control_tokens(self) -> Mapping[str, int]:
        """Ids of the tokens that steer the model, by the text that spells them."""
        ids = filter(self.is_control, range(self.n_vocab))
        return {self.token_bytes(i).decode("utf-8", "replace"): i for i in ids}

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that decides which ids a text gets."""
        digest = hashlib.sha256(f"llama.cpp {llama_cpp.__version__}".encode())
        for key in sorted(self._metadata):
            value = self._metadata[key]
            data = value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
            digest.update(b"%s %d " % (key.encode(), len(data)) + data)
        return digest.hexdigest()

    def encode(
        self,
        text: str | bytes,
        *,
        add_special: bool = True,
        parse_special: bool = False,
        continues: bool = False,
    ) -> list[int]:
        """Return the token ids of ``text``; see :meth:`maglio.text.Tokenizer.encode`.

        Bytes that are not valid UTF-8 become U+FFFD. The BOS and EOS tokens are put on here: the
        library ends the process where one is asked for that is not there.
        Where the library puts a space before a text, it does so also if the text ``continues``
        another one, unless that text begins with a space: then the two are one.

        Raises:
            InvalidArgumentError: the text has a lone surrogate, or over 1 GiB.
        """
        data = to_bytes(text).decode("utf-8", "replace").encode()
        if continues and data.startswith(b" ") and self.adds_space_prefix:
            data = data[1:]
        ids = self._ids(data, parse_special)
        if not parse_special:
            ids = list(self._as_text(ids))
        if not add_special:
            return ids
        before = [self.bos_id] if self.add_bos and self.bos_id is not None else []
        after = [self.eos_id] if self._add_eos and self.eos_id is not None else []
        return [*before, *ids, *after]

    def _as_text(self, ids: Iterable[int]) -> Iterator[int]:
        """Spell control tokens, which some vocabularies find in any text."""
        for token in ids:
            if not self.is_control(token):
                yield token
                continue
            name = self.token_bytes(token).decode("utf-8", "replace")
            for part in (name[:1], name[1:]):
                if part != name:
                    yield from self._as_text(self._ids(part.encode(), False))

    def _ids(self, data: bytes, parse_special: bool) -> list[int]:
        size = len(data) + 8
        while True:
            ids = (llama_cpp.llama_token * size)()
            count = llama_cpp.llama_tokenize(
                self._vocabulary, data, len(data), ids, size, False, parse_special
            )
            if count >= 0:
                return [token for token in ids[:count] if token >= 0]  # -1: cannot be spelled
            size = -count

    def fewest_tokens(self, text: str) -> int:
        """Return a lower bound of the number of tokens in ``text``, without encoding it.

        It is 0 where the library may drop text or join what the vocabulary cannot spell.
        """
        if llama_cpp.llama_vocab_type(self._vocabulary) not in _LOSSLESS:
            return 0
        return -(-len(text.encode("utf-8", "ignore")) // self._longest)

    def decode(
        self, ids: Iterable[int], *, show_control: bool = False, continues: bool = False
    ) -> str:
        """Return the text of ``ids``; see :class:`~maglio.text.Detokenizer` for the options.

        Raises:
            InvalidArgumentError: an id is outside the vocabulary.
        """
        return Detokenizer(self, show_control=show_control, continues=continues).whole(ids)

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes a token stands for; of a control token, its name.

        Raises:
            InvalidArgumentError: the id is outside the vocabulary.
        """
        self._check(token)
        size = _PIECE
        while True:
            piece = ctypes.create_string_buffer(size)
            count = llama_cpp.llama_token_to_piece(self._vocabulary, token, piece, size, 0, True)
            if count >= 0:
                return piece.raw[:count]
            size = -count

    def is_control(self, token: int) -> bool:
        """Whether a token steers the model and is not text.

        Raises:
            InvalidArgumentError: the id is outside the vocabulary.
        """
        self._check(token)
        return bool(llama_cpp.llama_vocab_is_control(self._vocabulary, token))

    @cached_property
    def _longest(self) -> int:
        return max(1, *(len(self.token_bytes(token)) for token in range(self.n_vocab)))

    def _or_none(self, token: int) -> int | None:
        return int(token) if 0 <= token < self.n_vocab else None

    def _check(self, token: int) -> None:
        if not 0 <= token < self.n_vocab:
            raise InvalidArgumentError(
                f"token id {token} is outside the vocabulary (0 to {self.n_vocab - 1})"
            )
