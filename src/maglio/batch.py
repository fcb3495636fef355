"""Many prompts through one model: their generations share forwards.

Boundary: begins a generation when another has ended, reads their text, and says how each ended.
Which rows share a forward is the scheduler's business.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from maglio.decode import SamplingParams, Scheduler
from maglio.decode import Sequence as TokenSequence
from maglio.engine.base import Cache, Engine
from maglio.engine.session import Session
from maglio.errors import InvalidArgumentError, OutOfMemoryError
from maglio.generation import Generation, Reading
from maglio.one_thread import Steps

MIN_SHARED = 16
"""Shorter common beginnings of prompts are not worth a cache of their own."""


Job = Callable[[], tuple[Reading, Callable[[], None]]]
"""Begins a generation, and returns it with what is to be done when it has ended."""


class _Running(NamedTuple):
    """A generation under way."""

    number: int
    reading: Reading
    remember: Callable[[], None]


class Batch:
    """Runs jobs, at most so many at a time.

    A job that runs out of memory is tried once more when all others have ended.

    Args:
        scheduler: drives the sequences of the jobs.
        jobs: what to run, in this order.
        max_parallel: most jobs at a time; at most the rows of a forward.
        shared: what the jobs' prompts begin with; let go of when all of them have begun.
        progress: called with (jobs done, jobs in all) after each.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        jobs: Sequence[Job],
        *,
        max_parallel: int,
        shared: SharedBeginning,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self._scheduler = scheduler
        self._jobs = jobs
        self._max_parallel = max_parallel
        self._shared = shared
        self._progress = progress
        self._waiting = deque(range(len(jobs)))
        self._again: deque[int] = deque()  # ran out of memory beside others
        self._tried: set[int] = set()  # those of them so far
        self._running: dict[TokenSequence, _Running] = {}
        self._done = 0

    def run(self) -> Iterator[tuple[int, Generation]]:
        """Yield the number and the generation of every job, as they end."""
        return Steps("this batch", self._run())

    def _run(self) -> Iterator[tuple[int, Generation]]:
        while self._waiting or self._running:
            yield from self._begin(self._waiting, self._max_parallel)
            if not self._waiting:
                self._shared.release()
            yield from self._step()
        while self._again or self._running:
            yield from self._begin(self._again, 1)
            yield from self._step()

    def _begin(self, waiting: deque[int], max_parallel: int) -> Iterator[tuple[int, Generation]]:
        """Fill the free places."""
        while waiting and len(self._running) < max_parallel:
            number = waiting.popleft()
            try:
                reading, remember = self._jobs[number]()
            except Exception as error:  # of its prompt or its source: the others go on
                ended = self._ended(number, error, Generation.failed(error))
                if ended is not None:
                    yield ended
                continue
            if reading.sequence.finish_reason is not None:  # nothing is to be generated
                remember()
                yield self._told(number, reading.result())
                continue
            self._running[reading.sequence] = _Running(number, reading, remember)
            self._scheduler.add(reading.sequence)

    def _step(self) -> Iterator[tuple[int, Generation]]:
        for sequence, _, error in self._scheduler.step():
            number, reading, remember = self._running[sequence]
            if error is None:
                for token in sequence.take():
                    reading.read(token.id)
                if sequence.finish_reason is None:
                    continue
                remember()
            del self._running[sequence]
            reading.close()
            result = reading.result(error)
            sequence.evict(release=True)
            ended = self._ended(number, error, result)
            if ended is not None:
                yield ended

    def _ended(
        self, number: int, error: Exception | None, result: Generation
    ) -> tuple[int, Generation] | None:
        """What to yield; ``None`` for a job that is tried again."""
        had_company = len(self._jobs) > 1 and self._max_parallel > 1
        if isinstance(error, OutOfMemoryError) and had_company and number not in self._tried:
            self._tried.add(number)
            self._again.append(number)
            return None
        return self._told(number, result)

    def _told(self, number: int, generation: Generation) -> tuple[int, Generation]:
        self._done += 1
        if self._progress is not None:
            try:
                self._progress(self._done, len(self._jobs))
            except Exception as error:  # a display is not a reason to lose what was generated
                self._progress = None
                warnings.warn(
                    f"the progress callback raised {error!r} and is not called any more",
                    RuntimeWarning,
                    stacklevel=2,
                )
        return number, generation


class SharedBeginning:
    """What all prompts begin with, computed once and shared by their caches.

    Args:
        engine: the model's engine.
        prompts: token ids of all prompts; those that have none are left out.
    """

    def __init__(self, engine: Engine, prompts: Sequence[Sequence[int]]) -> None:
        self._engine = engine
        self._tokens = common_beginning([prompt for prompt in prompts if len(prompt) > 0])
        self._session: Session | None = None

    def cache(self, prompt: Sequence[int]) -> Cache:
        """Return a new cache that holds the shared beginning, if the prompt has it.

        Raises:
            OutOfMemoryError: there is no memory for it.
        """
        shared = len(self._tokens)
        if (
            len(prompt) > self._engine.n_ctx
            or shared == 0
            or list(prompt[:shared]) != self._tokens
            or shared >= self._engine.n_ctx
        ):
            return self._engine.new_cache()
        if self._session is None:
            session = Session(self._engine)
            session.prefill(self._tokens)
            session.cache.keep()  # for sequences that give their memory back
            self._session = session
        return self._session.cache.fork(shared)

    def release(self) -> None:
        """Give its memory back; caches that share it keep it."""
        self._session, self._tokens = None, []


def common_beginning(prompts: Sequence[Sequence[int]]) -> list[int]:
    """The first tokens that all prompts share, without the last one of any.

    None when there are too few of them to be worth a cache, or prompts.
    """
    if len(prompts) < 2:
        return []
    # The first and the last in dictionary order differ the earliest.
    first, last = min(map(list, prompts)), max(map(list, prompts))
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    shared = [token for token, _ in pairs]
    del shared[min(map(len, prompts)) - 1 :]
    return shared if len(shared) >= MIN_SHARED else []


def sampling_of_each(
    sampling: SamplingParams | Sequence[SamplingParams] | None, n: int
) -> Sequence[SamplingParams]:
    """One for each of ``n`` prompts.

    Raises:
        InvalidArgumentError: there are more or fewer, or it is something else.
    """
    if sampling is None or isinstance(sampling, SamplingParams):
        return [SamplingParams() if sampling is None else sampling] * n
    listed = isinstance(sampling, Sequence) and len(sampling) == n
    if not listed or not all(isinstance(each, SamplingParams) for each in sampling):
        raise InvalidArgumentError(
            f"sampling is {sampling!r:.80}, must be SamplingParams or one for each of the {n} "
            "prompts"
        )
    return sampling
