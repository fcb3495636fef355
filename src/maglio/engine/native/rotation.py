"""Frequencies of rotary positions, and how a file stretches them to long contexts."""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from maglio.engine.native.keys import Keys

Frequencies = npt.NDArray[np.float64]


def frequencies(base: float, rotated: int) -> Frequencies:
    """Angle per position of each pair of ``rotated`` values.

    Rounded from decimal powers: those of NumPy and of the C library differ between machines.
    """
    with decimal.localcontext(decimal.Context(prec=40)):
        ratio = -2 * Decimal(base).ln() / rotated
        return np.array([float((ratio * pair).exp()) for pair in range(rotated // 2)])


@dataclass(frozen=True, slots=True)
class Yarn:
    """YaRN (Peng et al. 2023) as llama.cpp does it.

    Pairs that turn more than ``beta_fast`` times within the original context stay as they are,
    those that turn fewer than ``beta_slow`` times are stretched by ``factor``, and there is a ramp
    between them.
    """

    factor: float
    original_context: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    log_multiplier: float = 0.0

    def scaled(self, plain: Frequencies, base: float) -> Frequencies:
        """Stretch frequencies, which may already be divided by factors."""
        n = 2 * len(plain)
        low = max(0.0, math.floor(self._pair_that_turns(self.beta_fast, n, base)))
        high = min(n - 1.0, math.ceil(self._pair_that_turns(self.beta_slow, n, base)))
        place = (np.arange(len(plain)) - low) / max(0.001, high - low)
        kept = 1.0 - np.clip(place, 0.0, 1.0)
        return np.asarray(plain / self.factor * (1.0 - kept) + plain * kept)

    @property
    def magnitude(self) -> float:
        """Factor of cosines and sines."""
        if self.log_multiplier == 0.0:
            return self._growth(1.0)
        return self._growth(1.0) / self._growth(self.log_multiplier)

    def _pair_that_turns(self, times: float, n: int, base: float) -> float:
        return n * math.log(self.original_context / (times * 2 * math.pi)) / (2 * math.log(base))

    def _growth(self, multiplier: float) -> float:
        if self.factor <= 1.0:
            return 1.0
        return 1.0 + 0.1 * multiplier * float(Decimal(self.factor).ln())


def scaled(
    keys: Keys, base: float, rotated: int, *, yarn: bool, details: bool
) -> tuple[Frequencies, float]:
    """Frequencies and magnitude as the keys of scaling say; see :meth:`Keys.rope`."""
    plain, factors = frequencies(base, rotated), _factors(keys, "rope_freqs.weight", rotated)
    if not yarn or keys.text("rope.scaling.type", "") != "yarn":
        keys.only("rope.scaling.attn_factor", 1)
        return plain / (_linear_scaling(keys) * factors), 1.0
    yarned = Yarn(keys.real("rope.scaling.factor"), keys.original_context())
    if details:
        yarned = replace(
            yarned,
            beta_fast=keys.real("rope.scaling.yarn_beta_fast", yarned.beta_fast),
            beta_slow=keys.real("rope.scaling.yarn_beta_slow", yarned.beta_slow),
            log_multiplier=keys.factor("rope.scaling.yarn_log_multiplier", 0.0),
        )
    magnitude = yarned.magnitude * keys.real("rope.scaling.attn_factor", 1.0)
    return yarned.scaled(plain / factors, base), magnitude


def chosen_by_length(
    keys: Keys, base: float, rotated: int, *, long: bool
) -> tuple[Frequencies, float]:
    """Frequencies with the file's factors for long contexts or for short ones, and magnitude."""
    names = ("rope_factors_short.weight", "rope_factors_long.weight")
    short_factors, long_factors = (_factors(keys, name, rotated) for name in names)
    factors = long_factors if long else short_factors
    magnitude = keys.real("rope.scaling.attn_factor", 1.0)
    return frequencies(base, rotated) / (_linear_scaling(keys, "longrope") * factors), magnitude


def _linear_scaling(keys: Keys, also: str = "linear") -> float:
    """Return the factor by which positions are stretched, where llama.cpp looks for it."""
    kind = keys.text("rope.scaling.type", "")
    names = [n for n in ("rope.scaling.factor", "rope.scale_linear") if keys.has(n)]
    if kind == "none":
        return 1.0
    if kind not in ("", "linear", also):
        raise keys.unsupported(
            "rope.scaling.type", f"is {kind[:60]!r}, which is not supported here"
        )
    return keys.factor(names[0]) if names else 1.0


def _factors(keys: Keys, name: str, rotated: int) -> Frequencies:
    factors = keys.vector(name)
    if factors is None:
        return np.ones(rotated // 2)
    if factors.shape != (rotated // 2,) or not np.all(factors > 0):
        raise keys.file_error(f"tensor {name!r} does not hold one factor per rotated pair")
    return factors
