"""The seam of constraints: which tokens a generation may go on with.

Boundary: a protocol. :mod:`maglio.grammar` has constraints that follow a grammar.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.int32]
"""A bit for each token id, 32 to a word, from the lowest bit up; a token may come if it is set."""


class Constraint(Protocol):
    """Follows the generated tokens of one generation.

    Whatever was interrupted, :attr:`length`, :meth:`truncate` and :meth:`extend` bring it back.
    """

    @property
    def length(self) -> int:
        """Generated tokens it has followed."""
        ...

    def mask(self) -> Mask:
        """Which tokens may come next, ``(ceil(n_vocab / 32),)``.

        At least one may: where nothing can follow, the tokens that end a generation.
        """
        ...

    def extend(self, tokens: Sequence[int]) -> None:
        """The generation goes on with ``tokens``, each of which the mask before it allows."""
        ...

    def truncate(self, length: int) -> None:
        """Forget all but the first ``length`` generated tokens."""
        ...

    def admissible(self, tokens: Sequence[int]) -> int:
        """How many of the first ``tokens`` may come next. Changes nothing."""
        ...

    def forced(self) -> list[int]:
        """Tokens that are likely to come next because no other text can; empty if unknown.

        Other tokens may spell the same text, so these are good drafts and nothing more.
        """
        ...
