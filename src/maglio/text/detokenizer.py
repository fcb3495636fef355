"""Token ids to text, one at a time. Knows no vocabulary but what a tokenizer tells it."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import Protocol


class _TokenText(Protocol):
    """What a detokenizer asks of a tokenizer."""

    @property
    def adds_space_prefix(self) -> bool: ...

    def token_bytes(self, token: int) -> bytes: ...

    def is_control(self, token: int) -> bool: ...


class Detokenizer:
    """Turns a stream of ids into text that never splits a character.

    The pieces, joined and followed by :meth:`flush`, are the decoding of the whole stream. Bytes
    that are not valid UTF-8 become U+FFFD. Control tokens give no text unless ``show_control``.
    If the tokenizer puts a space before a text, it is taken off again, unless the stream
    ``continues`` an earlier one. llama.cpp's ``clean_up_tokenization_spaces`` is not imitated: it
    would change what the model wrote.
    """

    def __init__(
        self, tokenizer: _TokenText, *, show_control: bool = False, continues: bool = False
    ) -> None:
        self._tokenizer = tokenizer
        self._show_control = show_control
        self._strip_space = tokenizer.adds_space_prefix and not continues
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def pending(self) -> bool:
        """Whether a character is incomplete."""
        return bool(self._decoder.getstate()[0])

    def push(self, token: int) -> str:
        """Take one id and return the text that became complete.

        Raises :class:`~maglio.errors.InvalidArgumentError` for an id outside the vocabulary.
        """
        if not self._show_control and self._tokenizer.is_control(token):
            return ""
        data = self._tokenizer.token_bytes(token)
        if self._strip_space and data and not self._tokenizer.is_control(token):
            data = data.removeprefix(b" ")
            self._strip_space = False
        return self._decoder.decode(data)

    def whole(self, ids: Iterable[int]) -> str:
        """Take all ids that are left and return their text.

        Raises :class:`~maglio.errors.InvalidArgumentError` for an id outside the vocabulary.
        """
        pieces = [self.push(token) for token in ids]
        return "".join(pieces) + self.flush()

    def flush(self) -> str:
        """Return what an incomplete character at the end amounts to, and start afresh."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text
