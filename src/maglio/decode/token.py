"""Tokens going in and coming out: ids are checked, results say where they come from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from maglio.decode.params import check_int
from maglio.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token.

    Attributes:
        id: the token id.
        source: ``model``, or the name of the draft source that predicted the token.
    """

    id: int
    source: str


def is_token(value: object, n_vocab: int) -> bool:
    """Whether ``value`` is an integer (numpy's count, truth values do not) in the vocabulary."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        return False
    return 0 <= int(value) < n_vocab


def checked_tokens(name: str, tokens: Iterable[int], n_vocab: int) -> list[int]:
    """Return ``tokens`` as a list of ints.

    Raises:
        InvalidArgumentError: one of them is not an integer of the vocabulary; says which.
    """
    if not isinstance(tokens, Iterable):
        raise InvalidArgumentError(f"{name} is {tokens!r}, must be a sequence of token ids")
    checked: list[int] = []
    for index, token in enumerate(tokens):
        if not is_token(token, n_vocab):
            check_int(f"{name}[{index}]", token, 0, n_vocab - 1)
        checked.append(int(token))
    return checked
