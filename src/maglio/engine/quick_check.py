"""How exact a loaded engine is, found by a quick check: some thirty rows, alone and with others.

Boundary: engines by their seam, streams as token ids. It finds what it tries; the longer trials of
``maglio doctor`` (:mod:`maglio.engine.trials`) find more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from maglio.engine.base import Engine, Exactness
from maglio.engine.trial import Trial
from maglio.engine.trials import (
    Neighbour,
    Streams,
    attempt,
    compared,
    prefilled,
    rows_alone,
    rows_beside,
    rows_in_pieces,
)

_ROWS = 12
_CONTEXT = 24
_CUTS = {f"{_ROWS} rows at a time": (_ROWS,), "2, 3 and 7 rows at a time": (2, 3, 7)}
_FED = (4, 1, 2)
_NEIGHBOURS = 2

N_STREAMS = 1 + _NEIGHBOURS
N_TOKENS = _CONTEXT + _ROWS
"""Token ids that each stream must have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickCheck:
    """What a quick check found.

    Attributes:
        claimed: what the engine says it promises.
        trials: what was tried; nothing where the context is too short for it.
    """

    claimed: Exactness
    trials: tuple[Trial, ...]

    @property
    def exactness(self) -> Exactness:
        """``bitwise`` if something was tried and all rows were equal in every bit."""
        equal = bool(self.trials) and all(trial.bitwise for trial in self.trials)
        return "bitwise" if equal else "distribution"

    @property
    def drift(self) -> float:
        """Largest difference of a logit; infinite where that is not known."""
        if not self.trials or any(trial.error for trial in self.trials):
            return math.inf
        return max(trial.largest for trial in self.trials)

    def __str__(self) -> str:
        """What was found, in words."""
        if not self.trials:
            return "the context is too short to try anything"
        failed = [trial for trial in self.trials if trial.error]
        if failed:
            return f"it failed {failed[0].name}: {failed[0].error}"
        rows = sum(trial.rows for trial in self.trials)
        different = [trial for trial in self.trials if not trial.bitwise]
        if not different:
            return f"all {rows} rows computed with others were, to the bit, those computed alone"
        n = rows - sum(trial.equal for trial in self.trials)
        where = "; ".join(trial.name for trial in different)
        return (
            f"{n} of {rows} rows computed with others ({where}) differed from those computed "
            f"alone, by {self.drift:.2g} at most"
        )


def quick_check(engine: Engine, streams: Streams) -> QuickCheck:
    """Compare rows that are computed alone with the same rows computed with others.

    That is: all in one forward, in forwards of 2, 3 and 7 rows, and one row in forwards with those
    of other streams. It takes about 20 forwards, most of them of one row.

    Args:
        engine: is tried.
        streams: :data:`N_STREAMS` of :data:`N_TOKENS` ids each.
    """
    context = min(_CONTEXT, engine.n_ctx - _ROWS)
    tried = () if context < 1 else tuple(_trials(engine, streams, context))
    return QuickCheck(claimed=engine.exactness, trials=tried)


def _trials(engine: Engine, streams: Streams, context: int) -> Iterator[Trial]:
    tokens = streams[0][context : context + _ROWS]
    base = prefilled(engine, streams[0], context)
    expected = rows_alone(engine, base.fork(context), tokens)
    for name, widths in _CUTS.items():
        yield attempt(
            name,
            context,
            lambda: compared(  # run before the next widths
                rows_in_pieces(engine, base.fork(context), tokens, widths),  # noqa: B023
                expected,
            ),
        )
    if engine.max_rows >= 1 + _NEIGHBOURS * (max(_FED) + 1):
        others = [Neighbour(engine.new_cache(), stream) for stream in streams[1:N_STREAMS]]
        yield attempt(
            "beside other streams",
            context,
            lambda: compared(
                rows_beside(engine, base, tokens, others, _FED), expected[: len(_FED)]
            ),
        )
