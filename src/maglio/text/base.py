"""What all tokenizers with a vocabulary share: special tokens around plain fragments of text."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from maglio._core import SpecialTokens
from maglio.errors import InvalidArgumentError, ModelFileError
from maglio.text.detokenizer import Detokenizer
from maglio.text.utf8 import to_bytes
from maglio.text.vocabulary import TokenKind, Vocabulary

SPACE = "▁"  # stands for a space in vocabularies that are not byte-level
SPACE_BYTES = SPACE.encode()
SPACES = b" \t\n\v\f\r"  # what special tokens may take along


class VocabularyTokenizer(ABC):
    """A tokenizer over a vocabulary; subclasses encode fragments without special tokens."""

    adds_space_prefix = False

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._kinds: list[int] = vocabulary.kinds.tolist()
        self._special = SpecialTokens(_special_tokens(vocabulary))
        self._droppable_beside = SPACES if vocabulary.strips_left | vocabulary.strips_right else b""

    @property
    def n_vocab(self) -> int:
        """Number of token ids."""
        return len(self._vocabulary.tokens)

    @property
    def bos_id(self) -> int | None:
        """The token that begins a text, if there is one."""
        return self._vocabulary.bos_id

    @property
    def eos_id(self) -> int | None:
        """The token that ends a text, if there is one."""
        return self._vocabulary.eos_id

    @property
    def unk_id(self) -> int | None:
        """The token for what the vocabulary cannot spell, if there is one."""
        return self._vocabulary.unk_id

    @property
    def pad_id(self) -> int | None:
        """The token that fills rows of unequal length in training, if there is one."""
        return self._vocabulary.pad_id

    @property
    def eog_ids(self) -> frozenset[int]:
        """Every token that ends a generation."""
        return self._vocabulary.eog_ids

    @cached_property
    def control_tokens(self) -> Mapping[str, int]:
        """Ids of the tokens that steer the model, by the text that spells them."""
        tokens = self._vocabulary.tokens
        control = np.isin(self._vocabulary.kinds, (TokenKind.CONTROL, TokenKind.UNKNOWN))
        return {tokens[i]: i for i in np.flatnonzero(control).tolist()}

    @property
    def add_bos(self) -> bool:
        """Whether ``add_special`` puts the BOS token first."""
        return self._vocabulary.add_bos

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that decides which ids a text gets."""
        vocabulary = self._vocabulary
        digest = hashlib.sha256()
        settings = (*self._settings(), vocabulary.bos_id, vocabulary.eos_id, vocabulary.unk_id)
        settings += (vocabulary.add_bos, vocabulary.add_eos, self.adds_space_prefix)
        if self._droppable_beside:
            settings += (sorted(vocabulary.strips_left), sorted(vocabulary.strips_right))
        digest.update(repr(settings).encode())
        for texts in (vocabulary.tokens, self._merges()):
            blob, offsets = pack(texts)
            digest.update(offsets.tobytes())
            digest.update(blob)
        digest.update(vocabulary.kinds.tobytes())
        digest.update(vocabulary.scores.tobytes())
        return digest.hexdigest()

    def encode(
        self,
        text: str | bytes,
        *,
        add_special: bool = True,
        parse_special: bool = False,
        continues: bool = False,
    ) -> list[int]:
        """Return the token ids of ``text``, as llama.cpp's ``llama_tokenize`` gives them.

        ``add_special`` adds the BOS and EOS tokens the model asks for. ``parse_special`` reads
        control tokens spelled in the text as such; without it they are plain text. Where the text
        ``continues`` an earlier one, no space is put before it. Raises
        :class:`InvalidArgumentError` for a lone surrogate and for texts over 1 GiB.
        """
        data = to_bytes(text)
        vocabulary = self._vocabulary
        ids: list[int] = []
        if add_special and vocabulary.add_bos and vocabulary.bos_id is not None:
            ids.append(vocabulary.bos_id)
        after_special = not continues
        for begin, end, token in self._special.split(data, parse_special):
            if token >= 0:
                ids.append(token)
            else:
                ids += self._encode_fragment(data[begin:end], after_special=after_special)
            after_special = token >= 0
        if add_special and vocabulary.add_eos and vocabulary.eos_id is not None:
            ids.append(vocabulary.eos_id)
        return ids

    def fewest_tokens(self, text: str) -> int:
        """Return a lower bound of the number of tokens in ``text``, without encoding it.

        It is what the text would have if all its tokens were as long as the longest one.
        """
        # What stands for invalid bytes may get shorter, so it does not count.
        droppable = self._droppable + self._droppable_beside
        data = text.encode("utf-8", "ignore").translate(None, droppable)
        return -(-len(data) // self._longest)

    def decode(
        self, ids: Iterable[int], *, show_control: bool = False, continues: bool = False
    ) -> str:
        """Return the text of ``ids``; see :class:`~maglio.text.Detokenizer` for the options.

        Bytes that are not valid UTF-8 become U+FFFD. Raises :class:`InvalidArgumentError` for an id
        outside the vocabulary.
        """
        return Detokenizer(self, show_control=show_control, continues=continues).whole(ids)

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes a token stands for; of a control token, its name.

        Raises :class:`InvalidArgumentError` for an id outside the vocabulary.
        """
        kind = self._kind(token)
        text = self._vocabulary.tokens[token]
        if kind == TokenKind.NORMAL:
            return self._normal_bytes(text)
        if kind == TokenKind.BYTE:
            return bytes([self._vocabulary.byte_of(token)])
        if kind in (TokenKind.CONTROL, TokenKind.UNKNOWN, TokenKind.USER_DEFINED):
            return utf8_of(text)
        return b""

    def is_control(self, token: int) -> bool:
        """Whether a token steers the model and is not text.

        Raises :class:`InvalidArgumentError` for an id outside the vocabulary.
        """
        return self._kind(token) in (TokenKind.CONTROL, TokenKind.UNKNOWN)

    @cached_property
    def _longest(self) -> int:
        """Bytes of the longest token as it stands in the vocabulary.

        What a token stands for in a text is no longer: a space is one byte there, or several.
        """
        return max(
            len(text) if text.isascii() else len(utf8_of(text)) for text in self._vocabulary.tokens
        )

    @cached_property
    def _droppable(self) -> bytes:
        """The bytes that encoding may leave out."""
        return b""

    def _kind(self, token: int) -> int:
        if not 0 <= token < len(self._kinds):
            raise InvalidArgumentError(
                f"token id {token} is outside the vocabulary (0 to {len(self._kinds) - 1})"
            )
        return self._kinds[token]

    @abstractmethod
    def _encode_fragment(self, fragment: bytes, *, after_special: bool) -> list[int]:
        """Encode a fragment that holds no special token."""

    @abstractmethod
    def _normal_bytes(self, text: str) -> bytes:
        """Return the bytes that a token of kind NORMAL stands for."""

    @abstractmethod
    def _settings(self) -> tuple[object, ...]:
        """Return what else decides the ids, for the fingerprint."""

    def _merges(self) -> Sequence[str]:
        return ()


def pack(texts: Sequence[str]) -> tuple[bytes, npt.NDArray[np.int64]]:
    """Join texts as UTF-8; text i is ``blob[offsets[i]:offsets[i + 1]]``."""
    encoded = [utf8_of(text) for text in texts]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    return b"".join(encoded), offsets


def _special_tokens(vocabulary: Vocabulary) -> list[tuple[bytes, int, bool, bool, bool]]:
    user_defined = vocabulary.kinds == TokenKind.USER_DEFINED
    control = np.isin(vocabulary.kinds, (TokenKind.CONTROL, TokenKind.UNKNOWN))
    return [
        (
            utf8_of(vocabulary.tokens[i]),
            i,
            bool(control[i]),
            i in vocabulary.strips_left,
            i in vocabulary.strips_right,
        )
        for i in np.flatnonzero(user_defined | control).tolist()
    ]


def utf8_of(text: str) -> bytes:
    """Return the bytes of a token, which a model file need not keep valid."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ModelFileError(f"model file vocabulary has {text!r}, which is not text") from None
