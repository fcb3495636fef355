"""The time of a plain step and of a verify step: by the length of the context, and by the model.

Boundary: runs engines; knows no text, no drafts and no sampling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter

from maglio.bench.field.line import GrowthPoint
from maglio.bench.growth.quantity import Quantity, Wanted
from maglio.bench.growth.scale import Scale
from maglio.engine.base import Engine
from maglio.engine.session import Session
from maglio.gguf import ModelFile

WIDTHS = {"plain step": 1, "verify step of 8 rows": 8}
"""Rows of a forward by the name of the series."""

CONTEXT = Quantity(
    curve="a step, by context",
    x_name="tokens of context",
    unit="ms",
    expected=dict.fromkeys(WIDTHS, "O(n)"),
)
SIZE = Quantity(
    curve="a step, by size of the model",
    x_name="parameters",
    unit="ms",
    expected=dict.fromkeys(WIDTHS, "O(n)"),
)
SIZE_CONTEXT = 128
"""Context at which models are compared."""

_TOKEN_STEP = 7919  # a prime, to spread token ids over the vocabulary

Clock = Callable[[], float]


def context_points(
    engine: Engine, scale: Scale, wanted: Wanted, *, clock: Clock = perf_counter
) -> Iterator[GrowthPoint]:
    """Steps at contexts of growing length, as far as the engine's goes."""
    session = Session(engine)
    for context in scale.contexts:
        if context + max(WIDTHS.values()) > engine.n_ctx:
            return
        if CONTEXT.is_wanted(context, wanted):
            session.prefill(_tokens(engine, session.length, context))
            yield from _points(CONTEXT, context, session, engine, scale, clock)


def size_points(
    models: Sequence[Path],
    open_engine: Callable[[Path], Engine],
    scale: Scale,
    wanted: Wanted,
    *,
    clock: Clock = perf_counter,
) -> Iterator[GrowthPoint]:
    """Steps of models of several sizes; one is open at a time.

    Raises:
        ModelFileError: a file cannot be read.
        ContextFullError: a context is shorter than :data:`SIZE_CONTEXT` tokens and a verify step.
    """
    for path in sorted(models, key=parameters):
        size = parameters(path)
        if SIZE.is_wanted(size, wanted):
            yield from _of_model(open_engine(path), size, scale, clock)


def parameters(path: Path) -> int:
    """Numbers in the tensors of a model file.

    Raises:
        ModelFileError: it cannot be read.
    """
    total = 0
    for tensor in ModelFile(path).tensors.values():
        count = 1
        for dimension in tensor.shape:
            count *= dimension
        total += count
    return total


def _of_model(engine: Engine, size: int, scale: Scale, clock: Clock) -> Iterator[GrowthPoint]:
    session = Session(engine)
    session.prefill(_tokens(engine, 0, SIZE_CONTEXT))
    yield from _points(SIZE, size, session, engine, scale, clock)


def _points(
    quantity: Quantity, x: int, session: Session, engine: Engine, scale: Scale, clock: Clock
) -> Iterator[GrowthPoint]:
    """Widths take turns, so that a machine that changes its pace changes all of them."""
    context = session.length
    samples: dict[str, list[float]] = {name: [] for name in WIDTHS}
    for repetition in range(1 + scale.repetitions):
        for name, width in WIDTHS.items():
            tokens = _tokens(engine, context, context + width)
            begin = clock()
            session.forward(tokens)
            spent = clock() - begin
            session.truncate(context)
            if repetition > 0:  # the first one warms up
                samples[name].append(1e3 * spent)
    for name, values in samples.items():
        yield quantity.point(x, values, series=name)


def _tokens(engine: Engine, begin: int, end: int) -> list[int]:
    """The ids at some positions: the same ones in every run."""
    return [position * _TOKEN_STEP % engine.n_vocab for position in range(begin, end)]
