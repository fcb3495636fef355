"""What a generation may say, token by token. Knows ids, no grammar and no text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Constraint(Protocol):
    """Follows the generated tokens of one generation and says what may come next."""

    @property
    def length(self) -> int:
        """Generated tokens it has followed."""
        ...

    def mask(self) -> NDArray[np.int32]:
        """Which tokens may come next: int32 ``(ceil(n_vocab / 32),)``.

        Bit ``i % 32`` of word ``i // 32`` is set where token ``i`` may come. Never all zero: where
        nothing may follow, the tokens that end a generation may. The array is the caller's.
        """
        ...

    def extend(self, tokens: Sequence[int]) -> None:
        """Follow more tokens, each of which may come after those before it."""
        ...

    def truncate(self, length: int) -> None:
        """Forget all but the first ``length`` tokens."""
        ...

    def admissible(self, tokens: Sequence[int]) -> int:
        """How many of the first ``tokens`` may follow; changes nothing."""
        ...

    def forced(self) -> list[int]:
        """Tokens that must come next, split as the tokenizer would; empty if none are known.

        The same text may be split into other tokens, so these are good drafts and no more.
        """
        ...
