"""What the cascade needs of an index: one part of a draft source, following one stream."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]


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

    def weighed_draft(self, limit: int) -> tuple[list[int], bytes]:
        """The same, and a class of :data:`~maglio.draft.calibration.EVIDENCE` for each token."""
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
