"""Measures what a verify step costs on an engine, and whether its rows are the plain ones.

Knows engines only: no drafts, no sampling, no text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from time import perf_counter

import numpy as np

from maglio.economics.cost import CostCurve
from maglio.engine.base import Engine, Logits
from maglio.engine.session import Session
from maglio.errors import InvalidArgumentError

DRAFTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
CONTEXTS = (64, 512, 2048)
REPETITIONS = 9
_TOKEN_STEP = 7919  # a prime, to spread token ids over the vocabulary


@dataclass(frozen=True, slots=True)
class Spread:
    """A median and the quartiles around it."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of at least one value."""
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        return cls(*quantiles(values, n=4, method="inclusive"))


@dataclass(frozen=True, slots=True)
class ContextCosts:
    """Costs at one context length.

    Attributes:
        context: tokens in the cache.
        plain_s: seconds of a plain step.
        verify: by number of draft tokens ``k``, the cost of a forward of ``1 + k`` rows in plain
            steps.
    """

    context: int
    plain_s: Spread
    verify: dict[int, Spread]


@dataclass(frozen=True, slots=True)
class VerifyCosts:
    """What was measured.

    Attributes:
        contexts: costs by context length.
        rows_compared: rows of verify steps that were compared with those of plain steps,
        rows_equal: and how many of them were equal in every bit.
    """

    contexts: tuple[ContextCosts, ...]
    rows_compared: int
    rows_equal: int

    @property
    def bitwise(self) -> bool:
        """Whether every compared row was the plain one."""
        return self.rows_compared == self.rows_equal

    def cost(self, draft: int) -> float:
        """Cost of verifying ``draft`` tokens, the median over context lengths, at least 1."""
        return max(1.0, median(at.verify[draft].median for at in self.contexts))

    def curve(self) -> CostCurve:
        """The costs as a table by rows."""
        drafts = self.contexts[0].verify
        return CostCurve([(1, 1.0), *((1 + draft, self.cost(draft)) for draft in drafts)])


def strict_break_even(draft: int, cost: float) -> float:
    """Share of ``draft`` tokens that must be accepted for ``accepted + 1`` to reach ``cost``."""
    return (cost - 1.0) / draft


def conservative_break_even(draft: int, cost: float) -> float:
    """The same without the token that every verify step commits anyway."""
    return cost / draft


def measure(
    engine: Engine,
    *,
    contexts: Sequence[int] = CONTEXTS,
    drafts: Sequence[int] = DRAFTS,
    repetitions: int = REPETITIONS,
    clock: Callable[[], float] = perf_counter,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> VerifyCosts:
    """Time verify steps against plain ones, and compare their rows.

    Widths are interleaved, and each is timed between two plain steps, so that a machine that
    changes its pace meanwhile changes both. Tokens are spread over the vocabulary: a mixture of
    experts is measured at its most diverse.

    Args:
        engine: the engine; one sequence of it is used per context length.
        contexts: context lengths, at least 1; those that do not fit the engine's are left out.
        drafts: numbers of draft tokens, increasing, at least 1.
        repetitions: timings of each, at least 2.
        clock: seconds.
        progress: called with steps done and steps in all.

    Raises:
        InvalidArgumentError: an argument is out of range, or no context length fits.
    """
    _check_increasing("drafts", drafts)
    _check_increasing("contexts", contexts)
    if repetitions < 2:
        raise InvalidArgumentError(f"repetitions is {repetitions}, must be at least 2")
    fitting = [context for context in contexts if context + 1 + drafts[-1] <= engine.n_ctx]
    if not fitting:
        raise InvalidArgumentError(
            f"no context of {list(contexts)} tokens and {1 + drafts[-1]} more fits the "
            f"{engine.n_ctx} of this model; ask for a shorter one"
        )
    steps = len(fitting) * (repetitions + 1)
    probe = _Probe(drafts, repetitions, clock, lambda done: progress(done, steps))
    costs = [probe.at(engine, context) for context in fitting]
    return VerifyCosts(tuple(costs), probe.compared, probe.equal)


def _check_increasing(name: str, values: Sequence[int]) -> None:
    ordered = sorted({*values})
    if not values or list(values) != ordered or ordered[0] < 1:
        raise InvalidArgumentError(f"{name} are {list(values)}; they must increase from 1 or more")


class _Probe:
    def __init__(
        self,
        drafts: Sequence[int],
        repetitions: int,
        clock: Callable[[], float],
        progress: Callable[[int], None],
    ) -> None:
        self._drafts = drafts
        self._repetitions = repetitions
        self._clock = clock
        self._progress = progress
        self._done = 0
        self.compared = 0
        self.equal = 0

    def at(self, engine: Engine, context: int) -> ContextCosts:
        n = context + 1 + self._drafts[-1]
        tokens = [index * _TOKEN_STEP % engine.n_vocab for index in range(n)]
        session = Session(engine)
        session.prefill(tokens[:context])
        self._compare(session, tokens[context:])
        self._step()
        plain: list[float] = []
        ratios: dict[int, list[float]] = {draft: [] for draft in self._drafts}
        for _ in range(self._repetitions):
            for draft, before, seconds, after in self._round(session, tokens[context:]):
                plain.append(after)
                ratios[draft].append(2.0 * seconds / (before + after))
            self._step()
        return ContextCosts(
            context, Spread.of(plain), {draft: Spread.of(ratios[draft]) for draft in self._drafts}
        )

    def _step(self) -> None:
        self._done += 1
        self._progress(self._done)

    def _compare(self, session: Session, tokens: list[int]) -> None:
        start = session.length
        plain = np.stack([session.forward([token])[0].copy() for token in tokens])
        session.truncate(start)
        for draft in self._drafts:
            rows = session.forward(tokens[: 1 + draft])
            session.truncate(start)
            same = _bits(rows) == _bits(plain[: 1 + draft])
            self.compared += len(rows)
            self.equal += int(same.all(axis=1).sum())

    def _round(
        self, session: Session, tokens: list[int]
    ) -> Iterator[tuple[int, float, float, float]]:
        """Each width once: its draft length, and seconds of a plain step, of it, of another."""
        before = self._seconds(session, tokens[:1])
        for draft in self._drafts:
            seconds = self._seconds(session, tokens[: 1 + draft])
            after = self._seconds(session, tokens[:1])
            yield draft, before, seconds, after
            before = after

    def _seconds(self, session: Session, tokens: list[int]) -> float:
        start = session.length
        begin = self._clock()
        session.forward(tokens)
        seconds = self._clock() - begin
        session.truncate(start)
        return seconds


def _bits(rows: Logits) -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    return np.ascontiguousarray(rows, dtype=np.float32).view(np.uint32)
