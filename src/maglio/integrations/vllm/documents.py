"""Documents that requests may quote, as indexes of the served model's token ids.

Boundary: opens files, and asks vLLM for its tokenizer where text has to be encoded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from maglio._core import FrozenAutomaton
from maglio.errors import InvalidArgumentError
from maglio.references import INDEX_SUFFIX, Encoder, index_files


class TheirEncoder:
    """A tokenizer of vLLM, to encode documents with.

    Args:
        tokenizer: has ``encode(text, add_special_tokens=…)`` and ``eos_token_id``.
    """

    def __init__(self, tokenizer: Any) -> None:  # noqa: ANN401 (a class per kind)
        self._tokenizer = tokenizer

    @property
    def eos_id(self) -> int | None:
        """The token that ends a text, if there is one."""
        eos: int | None = self._tokenizer.eos_token_id
        return eos

    def encode(self, text: str | bytes, *, add_special: bool = True) -> list[int]:
        """The token ids of a text; what is not UTF-8 is replaced."""
        if isinstance(text, bytes):
            text = text.decode(errors="replace")
        return [*self._tokenizer.encode(text, add_special_tokens=add_special)]


def open_documents(
    paths: Iterable[Path], *, n_vocab: int, encoder: Callable[[], Encoder]
) -> list[FrozenAutomaton]:
    """Open or make the index of each document.

    An index file says which tokenizer it was made with, but vLLM's cannot be compared with that:
    only the ids are checked.

    Args:
        paths: text files, folders of them, and index files.
        n_vocab: number of token ids of the model.
        encoder: makes what encodes text; is called where there is text.

    Raises:
        IndexFileError: an index file is damaged.
        InvalidArgumentError: a file cannot be read, or its ids are not the model's.
        OutOfMemoryError: an index does not fit in memory.
    """
    indexes = []
    for path in paths:
        if path.suffix == INDEX_SUFFIX and os.path.isfile(path):
            index = FrozenAutomaton.open(path)
        else:
            index = index_files([path], encoder())
        if not 0 <= index.max_token < n_vocab:
            raise InvalidArgumentError(
                f"the reference {path} has token ids up to {index.max_token}, and the model has "
                f"{n_vocab}; make it with the tokenizer of the model"
            )
        indexes.append(index)
    return indexes


def vllm_encoder(model_config: Any) -> Encoder:  # noqa: ANN401 (of vLLM)
    """The tokenizer that vLLM serves the model with."""
    from vllm.tokenizers import cached_tokenizer_from_config

    return TheirEncoder(cached_tokenizer_from_config(model_config))
