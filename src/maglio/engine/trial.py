"""Rows against those of plain decoding: in bits, in size, in choice.

Boundary: arrays in, counts out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maglio.engine.base import Logits


@dataclass(frozen=True, slots=True)
class Trial:
    """How many rows were those they should have been.

    Attributes:
        name: what was done, in words.
        context: tokens before the first row.
        rows: how many were compared,
        equal: how many of these were equal in every bit,
        flips: and how many had another largest logit.
        largest: largest difference of a logit; infinite where one was not a number.
        error: what went wrong instead; empty if nothing did.
    """

    name: str
    context: int
    rows: int = 0
    equal: int = 0
    flips: int = 0
    largest: float = 0.0
    error: str = ""

    @property
    def bitwise(self) -> bool:
        """Whether every row was equal in every bit."""
        return not self.error and self.rows == self.equal


class Comparison:
    """Adds up how rows differ from those that are expected."""

    def __init__(self) -> None:
        self._rows = self._equal = self._flips = 0
        self._largest = 0.0

    def add(self, rows: Logits, expected: Logits) -> None:
        """Compare rows, float32 ``(n, n_vocab)``, with as many others."""
        same = (_bits(rows) == _bits(expected)).all(axis=1)
        self._rows += len(rows)
        self._equal += int(same.sum())
        self._flips += int((rows.argmax(axis=1) != expected.argmax(axis=1)).sum())
        if not same.all():
            with np.errstate(invalid="ignore"):
                apart = np.abs(rows.astype(np.float64) - expected)
            largest = float(apart.max())
            self._largest = max(self._largest, largest if np.isfinite(largest) else np.inf)

    def trial(self, name: str, context: int) -> Trial:
        """What came out."""
        return Trial(name, context, self._rows, self._equal, self._flips, self._largest)


def _bits(rows: Logits) -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    return np.ascontiguousarray(rows, dtype=np.float32).view(np.uint32)
