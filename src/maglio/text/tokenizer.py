"""The tokenizer seam: text in, token ids out, and back; and tokenizers from GGUF metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from maglio.errors import UnsupportedModelError
from maglio.text.absent import AbsentTokenizer
from maglio.text.bpe import BpeTokenizer
from maglio.text.characters import CharacterTokenizer
from maglio.text.metadata import Metadata
from maglio.text.pretokenizer import merges_characters
from maglio.text.spm import SpmTokenizer


class Tokenizer(Protocol):
    """Text to token ids and back. Tokenizers hold no state between calls."""

    @property
    def n_vocab(self) -> int:
        """Number of token ids; valid ids are ``0 .. n_vocab - 1``."""
        ...

    @property
    def bos_id(self) -> int | None:
        """The token that begins a text, if there is one."""
        ...

    @property
    def eos_id(self) -> int | None:
        """The token that ends a text, if there is one."""
        ...

    @property
    def unk_id(self) -> int | None:
        """The token for what the vocabulary cannot spell, if there is one."""
        ...

    @property
    def pad_id(self) -> int | None:
        """The token that fills rows of unequal length in training, if there is one."""
        ...

    @property
    def eog_ids(self) -> frozenset[int]:
        """Every token that ends a generation (llama.cpp's end-of-generation ids)."""
        ...

    @property
    def control_tokens(self) -> Mapping[str, int]:
        """Ids of the tokens that steer the model, by the text that spells them."""
        ...

    @property
    def add_bos(self) -> bool:
        """Whether ``encode(add_special=True)`` puts the BOS token first."""
        ...

    @property
    def adds_space_prefix(self) -> bool:
        """Whether ``encode`` puts a space before the text, which decoding takes off again."""
        ...

    @property
    def fingerprint(self) -> str:
        """Equal for two tokenizers only if they give every text the same ids."""
        ...

    def encode(
        self,
        text: str | bytes,
        *,
        add_special: bool = True,
        parse_special: bool = False,
        continues: bool = False,
    ) -> list[int]:
        """Return the token ids of ``text``; bytes need not be valid UTF-8.

        ``add_special`` adds the BOS and EOS tokens the model asks for; ``parse_special`` reads
        control tokens spelled in the text as such, otherwise they are plain text. ``continues``:
        the text goes on from earlier text, so no space is put before it.
        """
        ...

    def fewest_tokens(self, text: str) -> int:
        """Return a lower bound of the number of tokens in ``text``, without encoding it."""
        ...

    def decode(
        self, ids: Iterable[int], *, show_control: bool = False, continues: bool = False
    ) -> str:
        """Return the text of ``ids``, without control tokens unless ``show_control``.

        ``continues``: the ids go on from earlier text, so a space that begins them stays.
        """
        ...

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes a token stands for; of a control token, its name."""
        ...

    def is_control(self, token: int) -> bool:
        """Whether a token steers the model and is not text."""
        ...


def _by_pretokenizer(metadata: Metadata) -> Tokenizer:
    if merges_characters(metadata.text("tokenizer.ggml.pre")):
        return CharacterTokenizer(metadata)
    return BpeTokenizer(metadata)


TOKENIZERS: Mapping[str, Callable[[Metadata], Tokenizer]] = {
    "gpt2": _by_pretokenizer,
    "llama": SpmTokenizer,
    "gemma4": CharacterTokenizer,
    "whitespace": CharacterTokenizer,
    "none": AbsentTokenizer,
    "no_vocab": AbsentTokenizer,
}
"""What there is for each ``tokenizer.ggml.model``."""


def from_metadata(metadata: Mapping[str, object]) -> Tokenizer:
    """Build the tokenizer that a GGUF file's metadata describes.

    ``metadata`` maps GGUF keys to str, int, float, bool, list[str], or one-dimensional numpy
    arrays. Raises :class:`~maglio.errors.UnsupportedModelError` for a tokenizer that is not
    supported, and :class:`~maglio.errors.ModelFileError` for metadata that is incomplete or
    contradicts itself.
    """
    values = Metadata(metadata)
    model = values.text("tokenizer.ggml.model")
    if model in TOKENIZERS:
        return TOKENIZERS[model](values)
    raise UnsupportedModelError(
        f"model file has the tokenizer model {model!r}; supported are gpt2 (BPE), "
        "llama (SentencePiece), gemma4, whitespace, and none"
    )
