"""How numbers and names are written in reports, the same in every form of them.

Boundary: one value to one text.
"""

from __future__ import annotations

from maglio.bench.field.ratio import Ratio

MISSING = "-"
"""Stands where there is no number."""


def decoding(temperature: float) -> str:
    """How tokens are chosen at a temperature."""
    return "greedy" if temperature == 0.0 else f"T = {temperature:g}"


def figure(value: float) -> str:
    """A number with three digits that count, and no exponent."""
    if value == 0.0:
        return "0"
    size = abs(value)
    if size >= 100.0:
        return f"{value:,.0f}"
    if size >= 10.0:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.1 else f"{value:.4f}"


def times(ratio: Ratio) -> str:
    """A ratio with its range over prompts, if there are several."""
    if ratio.prompts == 1:
        return f"{ratio.mean:.2f}"
    return f"{ratio.mean:.2f} ({ratio.low:.2f}-{ratio.high:.2f})"


def count(number: int, noun: str) -> str:
    """So many of what the noun says."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """A share."""
    return f"{100.0 * share:.0f}%"


def megabytes(n_bytes: float) -> str:
    """An amount of memory."""
    return f"{n_bytes / 1e6:,.0f} MB"


def milliseconds(seconds: float) -> str:
    """A short time."""
    return f"{1e3 * seconds:,.0f} ms"


def amount(value: float) -> str:
    """What grows along a curve: 512, 16,384, 10M."""
    if value < 1e5:
        return f"{value:,.6g}"
    for size, letter in ((1e9, "G"), (1e6, "M")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value / 1e3:.3g}k"
