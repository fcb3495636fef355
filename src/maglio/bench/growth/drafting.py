"""What drafting costs without a model: with a reference of growing length, and hours into a stream.

Boundary: runs draft sources over streams that are known beforehand. Memory is that of the process,
so each measurement runs in one of its own (:mod:`maglio.bench.growth.own_process`).
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter

from maglio.bench.field.line import GrowthPoint
from maglio.bench.growth.quantity import Quantity
from maglio.bench.growth.scale import TOKENS_PER_HOUR
from maglio.bench.growth.synthetic import N_VOCAB, Ids, make_quoting, make_stream
from maglio.draft.calibrated import CalibratedPolicy
from maglio.draft.cascade import Cascade
from maglio.draft.reference import frozen
from maglio.draft.source import Draft, Step
from maglio.economics.cost import UNPROBED_NATIVE_COST

REFERENCE_STEP = Quantity(
    curve="drafting with a reference",
    x_name="tokens of the reference",
    unit="µs per step",
    expected={"": "O(1)"},
)
REFERENCE_MEMORY = Quantity(
    curve="memory of a reference",
    x_name="tokens of the reference",
    unit="MB",
    expected={"": "O(n)"},
)
REFERENCE_BUILD = Quantity(
    curve="indexing a reference",
    x_name="tokens of the reference",
    unit="s",
    expected={"": "O(n)"},
)
STREAM_STEP = Quantity(
    curve="drafting, hours into a stream",
    x_name="hours at 100 tokens per second",
    unit="µs per step",
    expected={"": "O(1)"},
)
STREAM_MEMORY = Quantity(
    curve="memory of drafting, hours into a stream",
    x_name="hours at 100 tokens per second",
    unit="MB",
    expected={"": "O(n) for 12 hours, then O(1)"},
)

MAX_DRAFT = 16
_CHUNK = 1 << 16

Clock = Callable[[], float]


def reference_points(
    length: int, *, steps: int, rounds: int, clock: Clock = perf_counter
) -> Iterator[GrowthPoint]:
    """Index a document of some length, and draft from it.

    Raises:
        OutOfMemoryError: there is no memory to index it.
    """
    document = make_stream(length)
    built = []
    for _ in range(rounds):
        begin = clock()
        index = frozen(document)
        built.append(clock() - begin)
    source = Cascade(N_VOCAB, CalibratedPolicy(UNPROBED_NATIVE_COST))
    source.add_reference(index)
    stream = make_quoting(document, 2 * MAX_DRAFT * steps)
    yield REFERENCE_BUILD.point(length, built)
    yield REFERENCE_MEMORY.point(length, [index.memory_bytes / 1e6])
    yield REFERENCE_STEP.point(length, Replay(source, stream, clock).steps(steps))


def hours_points(
    hours: Sequence[int],
    *,
    steps: int,
    tokens_per_hour: int = TOKENS_PER_HOUR,
    clock: Clock = perf_counter,
) -> Iterator[GrowthPoint]:
    """Draft for one stream that goes on for hours, which are simulated: its tokens are known."""
    length = hours[-1] * tokens_per_hour + 2 * MAX_DRAFT * steps
    stream = make_stream(length)
    before = resident_bytes()
    replay = Replay(Cascade(N_VOCAB, CalibratedPolicy(UNPROBED_NATIVE_COST)), stream, clock)
    for hour in hours:
        replay.skip(hour * tokens_per_hour)
        samples = replay.steps(steps)
        yield STREAM_STEP.point(hour, samples)
        yield STREAM_MEMORY.point(hour, [max(0, resident_bytes() - before) / 1e6])


class Replay:
    """A source drafts for a stream whose tokens are known.

    Args:
        source: drafts.
        stream: all tokens.
        clock: seconds.
    """

    def __init__(self, source: Cascade, stream: Ids, clock: Clock) -> None:
        self._source = source
        self._stream = stream
        self._clock = clock
        self._at = 0

    def skip(self, position: int) -> None:
        """Let the source read on to a position, without drafts."""
        for begin in range(self._at, position, _CHUNK):
            self._source.observe(Step(self._stream[begin : min(begin + _CHUNK, position)].tolist()))
        self._at = max(self._at, position)

    def steps(self, count: int) -> list[float]:
        """Microseconds of drafting of each of some steps; fewer if the stream ends before."""
        if self._at == 0:
            self.skip(1)
        samples: list[float] = []
        while len(samples) < count and self._at + MAX_DRAFT < len(self._stream):
            samples.append(1e6 * self._step())
        return samples

    def _step(self) -> float:
        begin = self._clock()
        draft = self._source.propose((), MAX_DRAFT)
        spent = self._clock() - begin
        step = self._verified(draft)
        begin = self._clock()
        self._source.observe(step)
        self._at += len(step.tokens)
        return spent + self._clock() - begin

    def _verified(self, draft: Draft | None) -> Step:
        """What a model that says the stream makes of a draft."""
        drafted = () if draft is None else draft.tokens
        coming = self._stream[self._at : self._at + len(drafted) + 1].tolist()
        accepted = 0
        while accepted < len(drafted) and drafted[accepted] == coming[accepted]:
            accepted += 1
        last = int(self._stream[self._at - 1])
        return Step(coming[: accepted + 1], (last, *drafted), draft, accepted)


def resident_bytes() -> int:
    """Memory of this process that is in RAM now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
