"""The engine seam: token ids in, logits out. No sampling, no text.

An :class:`Engine` holds weights; a :class:`Session` is one sequence's KV cache. Anything that
implements these two protocols can be decoded speculatively.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.float32]
Exactness = Literal["bitwise", "distribution"]


class Session(Protocol):
    """One sequence: the tokens seen so far and their KV cache."""

    @property
    def length(self) -> int:
        """Number of positions in the cache."""
        ...

    @property
    def n_ctx(self) -> int:
        """Number of positions the cache can hold."""
        ...

    @property
    def can_rewind(self) -> bool:
        """Whether :meth:`truncate` can drop any number of trailing positions."""
        ...

    def prefill(self, tokens: Sequence[int]) -> Logits:
        """Append ``tokens`` (at least one) and return the last row, float32 ``(vocab,)``."""
        ...

    def forward(self, tokens: Sequence[int]) -> Logits:
        """Append ``tokens`` and return one row each, float32 ``(len(tokens), vocab)``."""
        ...

    def truncate(self, length: int) -> None:
        """Keep the first ``length`` positions and forget the rest."""
        ...


class Engine(Protocol):
    """Loaded weights. Sessions of one engine are independent of each other."""

    @property
    def name(self) -> str:
        """Short name for reports, such as ``native``."""
        ...

    @property
    def exactness(self) -> Exactness:
        """``bitwise`` when rows obey the row law, ``distribution`` when they may be rounded."""
        ...

    @property
    def n_vocab(self) -> int:
        """Number of token ids; valid ids are ``0 .. n_vocab - 1``."""
        ...

    @property
    def n_ctx(self) -> int:
        """Context length of new sessions."""
        ...

    def session(self) -> Session:
        """Start an empty sequence."""
        ...
