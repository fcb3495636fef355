"""The driver of one stream: a forward a step, until the generation ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter

from maglio.decode.plan import Plan
from maglio.decode.sequence import Sequence
from maglio.decode.token import Token
from maglio.economics.allot import allot
from maglio.economics.live_cost import LiveCost
from maglio.engine.base import Engine
from maglio.errors import MaglioError


def run(
    engine: Engine,
    sequence: Sequence,
    cost: LiveCost | None = None,
    *,
    clock: Callable[[], float] | None = perf_counter,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Token]:
    """Generate what ``sequence`` was told to begin.

    Close the iterator to stop early (a ``for`` loop over an otherwise unreferenced one does): what
    it yielded stays.

    Args:
        engine: the engine of the sequence's cache.
        sequence: a sequence with a generation under way.
        cost: says what a forward costs, and learns it. Without it drafts are verified whole.
        clock: times forwards for ``cost``, in seconds; ``None`` learns nothing.
        progress: called with (tokens done, tokens in all) while a prompt is read.

    Yields:
        The committed tokens, each with the source that predicted it.

    Raises:
        MaglioError: the sequence has begun another generation meanwhile.
        InvalidLogitsError: the engine produced a row that cannot be sampled.
        OutOfMemoryError: there is no memory for more positions; the sequence can go on later.
    """
    turn, recorder = sequence.turn, sequence.recorder
    done = total = 0
    recorder.resume()
    try:
        while sequence.finish_reason is None:
            plan = sequence.plan()
            segment = sequence.next_segment(_rows(plan, cost, engine.max_rows))
            begin = perf_counter() if clock is None else clock()
            [rows] = engine.forward([segment])
            seconds = (perf_counter() if clock is None else clock()) - begin
            if cost is not None and clock is not None and segment.n_logits == len(segment.tokens):
                cost.learn(segment.n_logits, seconds)
            sequence.accept(rows, seconds=seconds)
            del rows  # an engine that lends them wants them back, however long the caller pauses
            total = total or plan.missing  # the first step reads the prompt
            if progress is not None and done < total:
                done = min(total, done + len(segment.tokens))
                progress(done, total)
            for token in sequence.take():
                recorder.pause()
                yield token
                if sequence.turn is not turn:
                    raise MaglioError(
                        "this generation was given up: its sequence has begun another"
                    )
                recorder.resume()
    finally:
        recorder.pause()


def _rows(plan: Plan, cost: LiveCost | None, most: int) -> int:
    """How many tokens the next forward takes."""
    draft = plan.draft
    if draft is None:
        return most
    if cost is None:
        return min(1 + len(draft.tokens), most)
    if cost.wants_plain:
        return 1
    wanted = allot([draft.odds], cost)[0] if draft.odds else len(draft.tokens)
    return min(1 + wanted, most)
