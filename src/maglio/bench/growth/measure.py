"""All growth curves, one after the other.

Boundary: says which point is next; what is done with it is said elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from maglio.bench.field.line import GrowthPoint
from maglio.bench.growth.conversation import conversation_points
from maglio.bench.growth.drafting import (
    REFERENCE_BUILD,
    REFERENCE_MEMORY,
    REFERENCE_STEP,
    STREAM_MEMORY,
    STREAM_STEP,
    hours_points,
    reference_points,
)
from maglio.bench.growth.own_process import in_own_process
from maglio.bench.growth.quantity import Wanted
from maglio.bench.growth.scale import Scale
from maglio.bench.growth.steps import context_points, size_points
from maglio.bench.growth.streams import stream_points
from maglio.engine.base import Engine
from maglio.model import Model


def growth_points(
    model: Model,
    scale: Scale,
    wanted: Wanted,
    *,
    shapes: Sequence[Path],
    open_engine: Callable[[Path], Engine],
) -> Iterator[GrowthPoint]:
    """Measure all points that are wanted.

    Args:
        model: what is measured.
        scale: where.
        wanted: tells which points.
        shapes: model files of other sizes; without any, sizes are not compared.
        open_engine: opens one of them.

    Raises:
        MaglioError: something cannot be measured; the points before it stand.
    """
    yield from context_points(model.engine, scale, wanted)
    yield from conversation_points(model, scale, wanted)
    yield from stream_points(model, scale, wanted)
    yield from _drafting(scale, wanted)
    if shapes:
        own = [] if model.path is None else [model.path]
        yield from size_points([*own, *shapes], open_engine, scale, wanted)


def _drafting(scale: Scale, wanted: Wanted) -> Iterator[GrowthPoint]:
    quantities = (REFERENCE_BUILD, REFERENCE_MEMORY, REFERENCE_STEP)
    for length in scale.references:
        if any(quantity.is_wanted(length, wanted) for quantity in quantities):
            measure = partial(reference_points, length, steps=scale.steps, rounds=scale.rounds)
            yield from in_own_process(measure)
    hours = [
        hour
        for hour in scale.hours
        if any(quantity.is_wanted(hour, wanted) for quantity in (STREAM_STEP, STREAM_MEMORY))
    ]
    if hours:
        yield from in_own_process(partial(hours_points, hours, steps=scale.steps))
