"""Token ids that come from outside: checked once, where they enter."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from maglio.checks import MAX_TOKEN_ID, check_int, is_int
from maglio.errors import InvalidArgumentError

ANY_VOCABULARY = MAX_TOKEN_ID + 1
"""The size of the largest vocabulary: what bounds ids where no model is known."""

Tokens = Sequence[int] | npt.NDArray[np.integer]


def is_token(value: object, n_vocab: int) -> bool:
    """Whether ``value`` is an integer (numpy's count, truth values do not) in the vocabulary."""
    return is_int(value) and 0 <= value < n_vocab


def checked_tokens(name: str, tokens: Iterable[int], n_vocab: int) -> list[int]:
    """Return ``tokens`` as a list of ints.

    Raises:
        InvalidArgumentError: one of them is not an integer of the vocabulary; says which.
    """
    is_flat = not isinstance(tokens, np.ndarray) or tokens.ndim == 1
    if not isinstance(tokens, Iterable) or not is_flat:
        raise InvalidArgumentError(f"{name} is {tokens!r:.80}, must be a sequence of token ids")
    checked: list[int] = []
    for index, token in enumerate(tokens):
        if not is_token(token, n_vocab):
            check_int(f"{name}[{index}]", token, 0, n_vocab - 1)
        checked.append(int(token))
    return checked


def token_array(
    tokens: Tokens, n_vocab: int = ANY_VOCABULARY, *, name: str = "tokens"
) -> npt.NDArray[np.int32]:
    """Token ids as the contiguous int32 array that the native core takes; no copy if it is one.

    Args:
        tokens: ids.
        n_vocab: ids are below this.
        name: what to call them in an error.

    Raises:
        InvalidArgumentError: an id is not an integer from 0 to ``n_vocab - 1``; says which.
    """
    if isinstance(tokens, np.ndarray):
        if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
            raise InvalidArgumentError(
                f"{name} is an array of {tokens.dtype} with shape {tokens.shape}, must be a flat "
                "sequence of token ids"
            )
        if tokens.size > 0 and not 0 <= tokens.min() <= tokens.max() < n_vocab:
            checked_tokens(name, tokens.tolist(), n_vocab)
        return np.ascontiguousarray(tokens, dtype=np.int32)
    try:
        elements = [*tokens]  # or bytes would be read as an array's memory
        ids = array("i", elements)  # several times faster than numpy on short lists
        valid = len(ids) == 0 or (min(ids) >= 0 and max(ids) < n_vocab)
        valid = valid and bool not in map(type, elements)
    except (TypeError, OverflowError):
        valid = False
    # Saying which id is wrong is left to the slow check, which is right about all of them.
    return np.asarray(ids if valid else array("i", checked_tokens(name, tokens, n_vocab)))
