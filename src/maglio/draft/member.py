"""What the cascade needs of an index: one part of a draft source, following one stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]


class Guess(NamedTuple):
    """How the stream might go on.

    Attributes:
        kind: what its odds depend on beside agreement and evidence: a key of
            :data:`~maglio.draft.calibration.PRIORS`.
        agreed: tokens that agree before it.
        tokens: what may come next.
        evidence: a class of :data:`~maglio.draft.calibration.EVIDENCE` for each token.
    """

    kind: str
    agreed: int
    tokens: list[int]
    evidence: bytes


class Member(Protocol):
    """An index that follows a stream and knows how it might go on."""

    @property
    def name(self) -> str:
        """As reported to users, such as ``conversation`` or ``reference:0``."""
        ...

    @property
    def match_length(self) -> int:
        """Tokens of the stream's end that the index knows how to continue."""
        ...

    def draft(self, limit: int) -> list[int]:
        """At most ``limit`` tokens that may follow the stream."""
        ...

    def guesses(self, limit: int) -> Sequence[Guess]:
        """The ways the stream might go on, at most ``limit`` tokens each; none twice."""
        ...

    def follow(self, tokens: Ids) -> None:
        """The stream goes on with ``tokens``."""
        ...

    def rewind(self, stream: Ids) -> None:
        """The stream is now ``stream``, a beginning of what was followed."""
        ...


def kind_of(name: str) -> str:
    """The name without what tells it from others of its kind: ``reference`` for ``reference:0``."""
    return name.partition(":")[0]
