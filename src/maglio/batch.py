"""Many prompts through one model: their generations share forwards.

Boundary: begins a generation when another has ended, reads their text, and says how each ended.
Which rows share a forward is the scheduler's business.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import NamedTuple

from maglio.checks import check_int
from maglio.decode import SamplingParams, Scheduler
from maglio.decode import Sequence as TokenSequence
from maglio.economics.live_cost import LiveCost
from maglio.engine.base import Cache, Engine
from maglio.engine.session import Session
from maglio.errors import InvalidArgumentError, MaglioError, OutOfMemoryError
from maglio.generation import Generation, Reading, Started
from maglio.one_thread import Steps
from maglio.request import Request
from maglio.speculation import Speculation
from maglio.starting import StreamModel, prompt_ids, start

MIN_SHARED = 16
"""Shorter common beginnings of prompts are not worth a cache of their own."""


class _Running(NamedTuple):
    """A generation under way."""

    number: int
    reading: Reading
    remember: Callable[[], None]


class Batch:
    """Runs requests, at most so many at a time.

    One that runs out of memory is tried once more when all others have ended.

    Args:
        model: generates.
        requests: what to generate, begun in this order.
        cost: what a forward costs; learns it.
        max_parallel: most generations at a time; more than the rows of a forward are never.
        progress: called with (requests done, requests in all) after each.

    Raises:
        InvalidArgumentError: ``max_parallel`` is out of range.
    """

    def __init__(
        self,
        model: StreamModel,
        requests: Sequence[Request],
        cost: LiveCost,
        *,
        max_parallel: int,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        check_int("max_parallel", max_parallel, 1, 1 << 16)
        self._model = model
        self._scheduler = Scheduler(model.engine, cost)
        self._requests = requests
        self._prompts = [_prompt(model, request) for request in requests]
        self._max_parallel = min(max_parallel, model.engine.max_rows)
        self._shared = SharedBeginning(
            model.engine, [ids for ids in self._prompts if isinstance(ids, list)]
        )
        self._progress = progress
        self._waiting = deque(range(len(requests)))
        self._again: deque[int] = deque()  # ran out of memory beside others
        self._tried: set[int] = set()  # those of them so far
        self._running: dict[TokenSequence, _Running] = {}
        self._done = 0

    def run(self) -> Iterator[tuple[int, Generation]]:
        """Yield the number and the generation of every request, as they end."""
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
                reading, _, remember = self._start(number)
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

    def _start(self, number: int) -> Started:
        ids = self._prompts[number]
        if isinstance(ids, MaglioError):
            raise ids
        request = replace(self._requests[number], prompt=ids)
        return start(self._model, request, cache=self._shared.cache(ids))

    def _step(self) -> Iterator[tuple[int, Generation]]:
        for sequence, _, error in self._scheduler.step():
            number, reading, remember = self._running[sequence]
            if error is None:
                for token in sequence.take():
                    reading.read(token)
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
        """What to yield; ``None`` for one that is tried again."""
        had_company = len(self._requests) > 1 and self._max_parallel > 1
        if isinstance(error, OutOfMemoryError) and had_company and number not in self._tried:
            self._tried.add(number)
            self._again.append(number)
            return None
        return self._told(number, result)

    def _told(self, number: int, generation: Generation) -> tuple[int, Generation]:
        self._done += 1
        if self._progress is not None:
            try:
                self._progress(self._done, len(self._requests))
            except Exception as error:  # a display is not a reason to lose what was generated
                self._progress = None
                warnings.warn(
                    f"the progress callback raised {error!r} and is not called any more",
                    RuntimeWarning,
                    stacklevel=2,
                )
        return number, generation


def _prompt(model: StreamModel, request: Request) -> list[int] | MaglioError:
    """The ids of the prompt, or why the request cannot begin."""
    try:
        if isinstance(request.speculation, Speculation):
            request.speculation.for_many()  # checks it
        return prompt_ids(model, request.prompt)
    except MaglioError as error:
        return error


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
