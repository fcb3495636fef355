"""The margin guard: which choices stand although their row was computed with others.

Boundary: says yes or no about one row. :class:`~maglio.decode.sequence.Sequence` has the row
computed alone where the answer is no.
"""

from __future__ import annotations

from maglio.decode.constraint import Mask
from maglio.decode.picker import Picker
from maglio.engine.base import Logits
from maglio.errors import InvalidArgumentError


class MarginGuard:
    """Compares how close a choice was with how far logits drift.

    Args:
        picker: chooses the tokens.
        drift: how far a logit may be from that of the same row computed alone; may be infinite.

    Raises:
        InvalidArgumentError: ``drift`` is negative or not a number.
    """

    def __init__(self, picker: Picker, drift: float) -> None:
        if not drift >= 0.0:
            raise InvalidArgumentError(f"drift is {drift!r}, must be a number from 0 on")
        self._picker = picker
        self._drift = drift

    def stands(self, token: int, row: Logits, position: int, mask: Mask | None) -> bool:
        """Whether ``token`` is chosen whichever way the logits of ``row`` drift."""
        return self._picker.stands(token, row, position, mask, drift=self._drift)
