"""Which experts a row takes and how it weighs them: slow and obvious, as llama.cpp defines it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Gating = Literal["softmax", "sigmoid", "softmax of chosen"]
GATINGS: dict[int, Gating] = {1: "softmax", 2: "sigmoid", 3: "softmax of chosen"}
"""By the values of ``expert_gating_func``."""


@dataclass
class Router:
    """How experts are chosen and weighed; tests change it."""

    n_used: int
    gating: Gating = "softmax"
    normalizes: bool = True
    scale: float = 1.0
    n_group: int = 1
    n_group_used: int = 1

    def choose(self, products: Array, bias: Array | float) -> list[tuple[int, float]]:
        """Return the experts of a row, best first, and their weights.

        ``products`` are the row's with the router; ``bias`` counts in the choice alone.
        """
        p = {
            "softmax": softmax,
            "sigmoid": lambda z: 1.0 / (1.0 + np.exp(-z)),
            "softmax of chosen": lambda z: z,
        }[self.gating](products)
        score = p + bias
        if self.n_group > 1:
            groups = score.reshape(self.n_group, -1)
            values = np.sort(groups, axis=1)[:, -2:].sum(axis=1)
            kept = np.argsort(-values, kind="stable")[: self.n_group_used]
            masked = np.full_like(groups, -np.inf)
            masked[kept] = groups[kept]
            score = masked.reshape(-1)
        chosen = np.argsort(-score, kind="stable")[: self.n_used]
        weights = p[chosen]
        if self.gating == "softmax of chosen":
            weights = softmax(weights)
        if self.normalizes:
            weights = weights / max(weights.sum(), 2.0**-14)
        return list(zip(chosen.tolist(), (weights * self.scale).tolist(), strict=True))


def softmax(scores: Array) -> Array:
    """Softmax over the last axis."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))
