"""The tokenizer of a model file without a vocabulary: token ids in, token ids out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from maglio.errors import InvalidArgumentError
from maglio.text.metadata import Metadata


class AbsentTokenizer:
    """Cannot encode; every id decodes to nothing."""

    bos_id: int | None = None
    eos_id: int | None = None
    unk_id: int | None = None
    pad_id: int | None = None
    eog_ids: frozenset[int] = frozenset()
    control_tokens: Mapping[str, int] = MappingProxyType({})
    add_bos = False
    adds_space_prefix = False

    def __init__(self, metadata: Metadata) -> None:
        architecture = metadata.text("general.architecture")
        self.n_vocab = metadata.integer(f"{architecture}.vocab_size") or 0
        self.fingerprint = f"none:{self.n_vocab}"

    def encode(
        self,
        text: str | bytes,
        *,
        add_special: bool = True,
        parse_special: bool = False,
        continues: bool = False,
    ) -> list[int]:
        """Raise :class:`InvalidArgumentError`: there is no vocabulary."""
        raise InvalidArgumentError(
            "this model file has no vocabulary (tokenizer.ggml.model is none): "
            "pass token ids instead of text"
        )

    def fewest_tokens(self, text: str) -> int:
        """Return 0."""
        return 0

    def decode(
        self, ids: Iterable[int], *, show_control: bool = False, continues: bool = False
    ) -> str:
        """Return the empty string."""
        return ""

    def token_bytes(self, token: int) -> bytes:
        """Return no bytes."""
        return b""

    def is_control(self, token: int) -> bool:
        """Return False."""
        return False
