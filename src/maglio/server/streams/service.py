"""Requests of many clients on one model, in a thread of its own.

Boundary: takes requests from any thread, checks them, bounds how many wait, and stops in an orderly
way. What happens in the thread is :mod:`maglio.server.streams.pool`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Condition, Thread
from time import monotonic

from maglio.checks import check_int
from maglio.errors import ContextFullError, MaglioError
from maglio.model import Model
from maglio.prefix_cache import PrefixCache, PrefixStats
from maglio.request import Request
from maglio.server.streams.event import Began, Event, Wrote
from maglio.server.streams.pool import Pool, Ticket
from maglio.speculation import Speculation
from maglio.starting import prompt_ids

MOST = 1 << 16


class ServiceBusyError(MaglioError):
    """As many requests wait as may; try again later."""


class ServiceClosedError(MaglioError):
    """The server is shutting down."""


class EngineFailedError(MaglioError):
    """The engine failed at requests that it cannot tell apart. Its own error is the cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStats:
    """What a service does now and has done.

    Attributes:
        running: requests that have begun and not ended.
        waiting: requests that have not begun.
        steps: forwards so far.
        streams: requests that were in them, all together.
        prompt_tokens: tokens of the prompts of requests that have begun,
        cached_tokens: and how many of them were computed before.
        tokens: tokens generated.
        drafted: draft tokens verified,
        accepted: and accepted.
        prefixes: what the prefix cache has done; ``None`` without one.
    """

    running: int
    waiting: int
    steps: int
    streams: int
    prompt_tokens: int
    cached_tokens: int
    tokens: int
    drafted: int
    accepted: int
    prefixes: PrefixStats | None


class Service:
    """Runs requests on a model. Its methods may be called from any thread.

    Args:
        model: generates. Nobody else may use its engine meanwhile.
        parallel: most requests at a time.
        queue: most requests that wait.
        prefixes: keeps what was computed for later requests; ``None`` keeps nothing.

    Raises:
        InvalidArgumentError: an argument is out of range.
    """

    def __init__(
        self,
        model: Model,
        *,
        parallel: int = 16,
        queue: int = 256,
        prefixes: PrefixCache | None = None,
    ) -> None:
        check_int("parallel", parallel, 1, MOST)
        check_int("queue", queue, 0, MOST)
        self.model = model
        self.parallel = min(parallel, model.engine.max_rows)
        self.queue = queue
        self._prefixes = prefixes
        self._pool = Pool(model, parallel=parallel, prefixes=prefixes)
        self._changed = Condition()
        self._orders: deque[Callable[[], None]] = deque()  # for the thread, in order
        self._open = 0  # tickets that have not ended
        self._steps = self._streams = 0
        self._prompt_tokens = self._cached_tokens = 0
        self._tokens = self._drafted = self._accepted = 0
        self._is_closing = False
        self._deadline: float | None = None
        self._thread = Thread(target=self._work, name="maglio-service", daemon=True)
        self._thread.start()

    @property
    def capacity(self) -> int:
        """Most requests that run and wait."""
        return self.parallel + self.queue

    @property
    def stats(self) -> ServiceStats:
        """What it does now and has done."""
        running = self._pool.running
        return ServiceStats(
            running=running,
            waiting=max(0, self._open - running),
            steps=self._steps,
            streams=self._streams,
            prompt_tokens=self._prompt_tokens,
            cached_tokens=self._cached_tokens,
            tokens=self._tokens,
            drafted=self._drafted,
            accepted=self._accepted,
            prefixes=None if self._prefixes is None else self._prefixes.stats,
        )

    def submit(self, request: Request, *, tenant: str, deliver: Callable[[Event], None]) -> Ticket:
        """Run a request as soon as there is a place.

        Args:
            request: what to generate.
            tenant: whose it is. Drafts, histories and caches of one tenant never serve another.
            deliver: hears of every event, in the service's thread; it must return at once. If it
                raises, as when whoever asked is gone, the request ends.

        Raises:
            InvalidArgumentError: a value in the request can never work.
            GrammarError: its grammar cannot be compiled.
            ContextFullError: the prompt leaves no room in the context.
            ServiceBusyError: too many requests wait.
            ServiceClosedError: the service is closing.
        """
        ids = self._checked(request)

        def heard(event: Event) -> None:
            self._count(event)
            try:
                deliver(event)
            except Exception:  # nobody listens: others must not suffer from it
                self.cancel(ticket)

        ticket = Ticket(replace(request, prompt=ids), tenant, heard)
        with self._changed:
            self.check_room()
            self._open += 1
            self._order(lambda: self._pool.add(ticket))
        return ticket

    def check_room(self) -> None:
        """Raise what :meth:`submit` would now, before anything is prepared for it.

        Raises:
            ServiceBusyError: too many requests wait.
            ServiceClosedError: the service is closing.
        """
        if self._is_closing:
            raise _closed()
        if self._open >= self.capacity:
            raise ServiceBusyError(
                f"{self.parallel} requests are running and {self.queue} are waiting, the most "
                "there may be; try again later"
            )

    def cancel(self, ticket: Ticket) -> None:
        """End a request where it is. Does nothing when it has ended."""
        with self._changed:
            self._order(lambda: self._pool.cancel(ticket))

    def close(self, *, grace: float = 0.0) -> None:
        """Take no more requests, give those that were taken ``grace`` seconds, and end the thread.

        What has not ended by then ends with :class:`ServiceClosedError`.
        """
        with self._changed:
            self._is_closing = True
            self._deadline = monotonic() + grace
            self._changed.notify()
        self._thread.join()

    # --- inside ----------------------------------------------------------------------------------

    def _checked(self, request: Request) -> list[int]:
        """The ids of the prompt of a request that can work."""
        if isinstance(request.speculation, Speculation):
            request.speculation.for_many()  # checks it
        request.ending.check(self.model.engine.n_vocab)
        if request.grammar is not None:
            self.model.grammars.start(request.grammar)  # compiles it here, and keeps it
        ids = prompt_ids(self.model, request.prompt)
        n_ctx = self.model.engine.n_ctx
        if len(ids) > n_ctx:
            raise ContextFullError(
                f"the prompt has {len(ids)} tokens, more than the context of {n_ctx}; shorten it, "
                "or start the server with a larger context"
            )
        return ids

    def _count(self, event: Event) -> None:
        if isinstance(event, Began):
            self._prompt_tokens += event.prompt_tokens
            self._cached_tokens += event.cached_tokens
        elif isinstance(event, Wrote):
            self._tokens += len(event.tokens)
            self._drafted += event.drafted
            self._accepted += event.accepted
        else:
            with self._changed:
                self._open -= 1

    def _order(self, order: Callable[[], None]) -> None:
        self._orders.append(order)
        self._changed.notify()

    def _work(self) -> None:
        """The thread: work until it is closed and nothing is left."""
        while self._await_work():
            self._turn()

    def _turn(self) -> None:
        """Carry orders out, and run one forward."""
        try:
            while self._orders:
                self._orders.popleft()()
            if self._deadline is not None and monotonic() >= self._deadline:
                self._pool.cancel_all(_closed())
            streams = self._pool.step()
        except Exception as error:  # of the engine: whoever waits must hear of it
            failure = EngineFailedError("the engine failed; the log of the server says more")
            failure.__cause__ = error
            self._pool.cancel_all(failure)
        else:
            self._steps += streams > 0
            self._streams += streams

    def _await_work(self) -> bool:
        """Wait until there is something to do; ``False`` when there never will be."""
        with self._changed:
            while True:
                if self._orders or self._pool.running or self._pool.waiting:
                    return True
                if self._is_closing:
                    return False
                self._changed.wait()


def _closed() -> ServiceClosedError:
    return ServiceClosedError("the server is shutting down; try again later")
