"""How many times as fast one contestant is as another, over the prompts that both have answered.

Boundary: numbers of runs. Both ran a prompt in the same round, one soon after the other, so a
ratio within a round is free of what the machine did in other rounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from maglio.bench.field.line import FieldRun

Key = tuple[str, int]
"""Prompt and round."""

LEAST_S = 1e-9
"""Shorter times are no measurements; a file that says so gives no speed there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Ratios of decoding speeds.

    Attributes:
        mean: the geometric mean over prompts, each of which counts once however many rounds it had.
            Twice as fast on one prompt and half as fast on another is 1, whoever is compared.
        low: of the prompt with the lowest,
        high: and of that with the highest.
        prompts: how many there are.
        below: how many of them are under 1.
        noise: standard error of ``mean`` as a share of it, from how far the rounds of a prompt lie
            apart; ``None`` where no prompt had several rounds.
    """

    mean: float
    low: float
    high: float
    prompts: int
    below: int
    noise: float | None


def by_round(runs: Iterable[FieldRun]) -> dict[Key, FieldRun]:
    """The runs that gave tokens in some time, by prompt and round; the last of each counts."""
    return {
        (run.prompt, run.round): run
        for run in runs
        if run.error is None and run.decoded > 0 and run.decode_s >= LEAST_S
    }


def compare(runs: Mapping[Key, FieldRun], others: Mapping[Key, FieldRun]) -> Ratio | None:
    """The speed of ``runs`` over that of ``others``; ``None`` if they have no prompt in common."""
    rounds: dict[str, list[tuple[FieldRun, FieldRun]]] = {}
    for key, run in runs.items():
        if key in others:
            rounds.setdefault(key[0], []).append((run, others[key]))
    if not rounds:
        return None
    ratios = [
        _rate(run for run, _ in pairs) / _rate(other for _, other in pairs)
        for pairs in rounds.values()
    ]
    return Ratio(
        mean=math.exp(sum(map(math.log, ratios)) / len(ratios)),
        low=min(ratios),
        high=max(ratios),
        prompts=len(ratios),
        below=sum(ratio < 1.0 for ratio in ratios),
        noise=_noise(rounds.values()),
    )


def _rate(runs: Iterable[FieldRun]) -> float:
    """Tokens per second of all runs together."""
    some = list(runs)
    return sum(run.decoded for run in some) / sum(run.decode_s for run in some)


def _noise(prompts: Iterable[list[tuple[FieldRun, FieldRun]]]) -> float | None:
    squares, freedom, count = 0.0, 0, 0
    for pairs in prompts:
        ratios = [_rate([run]) / _rate([other]) for run, other in pairs]
        centre = sum(ratios) / len(ratios)
        squares += sum((ratio / centre - 1.0) ** 2 for ratio in ratios)
        freedom += len(ratios) - 1
        count += len(ratios)
    return math.sqrt(squares / freedom / count) if freedom else None
