"""A model's vocabulary as llguidance sees it.

Boundary: ids and their bytes; knows no grammar.

Control tokens are no text to a grammar: they come only where it names them. What has no bytes, such
as the padding of a vocabulary or a byte that is in no UTF-8, never comes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llguidance import LLTokenizer, TokenizerWrapper
from numpy.typing import NDArray

from maglio.errors import GrammarError
from maglio.text.tokenizer import Tokenizer

_MOST_CERTAIN = 1024
"""Characters of text that is certain to come which are split into tokens at a time: the split of
the first of them is what counts, and a literal may have a megabyte."""
_NO_UTF8 = 0xFF  # llguidance marks control tokens with it


class GrammarVocabulary:
    """The tokens that a grammar can name.

    Args:
        tokenizer: the model's.
        n_vocab: ids that the engine has a logit for; those past the tokenizer's have no text.

    Attributes:
        n_vocab: number of ids.
        ends: the tokens that end a generation, by the mask that allows them, int32.
        lengths: bytes of each token's text, int32 ``(n_vocab,)``; 0 for a control token.

    Raises:
        GrammarError: no token ends a generation.
    """

    def __init__(self, tokenizer: Tokenizer, n_vocab: int) -> None:
        self.n_vocab = n_vocab
        known = min(n_vocab, tokenizer.n_vocab)
        control = [i for i in range(known) if tokenizer.is_control(i)]
        self.tokens = [_text(tokenizer.token_bytes(i)) for i in range(known)]
        self.tokens += [b""] * (n_vocab - known)
        self.end_ids = frozenset(i for i in tokenizer.eog_ids if i < n_vocab)
        if not self.end_ids:
            raise GrammarError(
                "this model has no token that ends a generation, so a grammar could not end either"
            )
        self.lengths = np.array([len(text) for text in self.tokens], np.int32)
        usable = self.lengths > 0
        usable[sorted({*control, *self.end_ids})] = True
        self.lengths[control] = 0
        self._usable = usable
        self.usable = packed(usable)
        self.ends = packed(np.isin(np.arange(n_vocab), sorted(self.end_ids)))
        for token in control:
            self.tokens[token] = bytes([_NO_UTF8]) + self.tokens[token]
        self.library = LLTokenizer(
            TokenizerWrapper(_Wrapped(self, tokenizer)), eos_token=sorted(self.end_ids)
        )

    def is_usable(self, token: int) -> bool:
        """Whether a grammar could ever allow a token."""
        return 0 <= token < self.n_vocab and bool(self._usable[token])

    def n_usable(self, tokens: Sequence[int]) -> int:
        """How many of the first tokens a grammar could ever allow."""
        return next((i for i, t in enumerate(tokens) if not self.is_usable(t)), len(tokens))


class _Wrapped:
    """What llguidance's wrapper of tokenizers reads."""

    special_token_ids = ()  # they are marked already

    def __init__(self, vocabulary: GrammarVocabulary, tokenizer: Tokenizer) -> None:
        self.tokens = vocabulary.tokens
        self.eos_token_id = min(vocabulary.end_ids)
        self.bos_token_id = tokenizer.bos_id
        self._tokenizer = tokenizer

    def __call__(self, text: str | bytes) -> list[int]:
        text = text[:_MOST_CERTAIN]
        ids = self._tokenizer.encode(text, add_special=False, continues=True)
        data = text.encode() if isinstance(text, str) else text
        if b"".join(self.tokens[i] for i in ids) == data:
            return ids
        return self._spelled(data)

    def _spelled(self, data: bytes) -> list[int]:
        """Return tokens for what the tokenizer changes: the longest that fit, one by one."""
        ids: list[int] = []
        while data:
            fits = (i for i, token in enumerate(self.tokens) if token and data.startswith(token))
            token = max(fits, key=lambda i: len(self.tokens[i]), default=None)
            if token is None:
                break
            ids.append(token)
            data = data[len(self.tokens[token]) :]
        return ids


def packed(allowed: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return truth values as a mask: bit ``i % 32`` of word ``i // 32``."""
    padded = np.zeros(-(-len(allowed) // 32) * 32, np.bool_)
    padded[: len(allowed)] = allowed
    return np.packbits(padded, bitorder="little").view("<i4").astype(np.int32)


def unpacked(mask: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the ids that a mask allows, ascending."""
    bits = np.unpackbits(mask.astype("<i4").view(np.uint8), bitorder="little")
    return np.flatnonzero(bits)


def _text(data: bytes) -> bytes:
    return b"" if data[:1] == bytes([_NO_UTF8]) else data
