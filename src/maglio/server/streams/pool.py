"""Requests of many clients on one model, step by step.

Boundary: begins requests as places come free, reads their text, and says what became of each. Which
rows share a forward is the scheduler's business; who may ask, and threads, are the service's. What
a request gets does not depend on the others: it is, to the bit, what it gets alone.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from maglio.decode import Scheduler
from maglio.decode import Sequence as TokenSequence
from maglio.draft.source import Step
from maglio.engine.base import Cache
from maglio.errors import MaglioError
from maglio.generation import Generation, Started
from maglio.model import Model
from maglio.prefix_cache import PrefixCache
from maglio.prefix_tree import Ids, common_length
from maglio.request import Request
from maglio.server.streams.event import Began, Ended, Event, Wrote
from maglio.speculation import Speculation
from maglio.tokens import Tokens, token_array

MIN_SHARED = 64
"""A shorter beginning that is being computed is not worth waiting for."""


@dataclass(eq=False, slots=True)
class Ticket:
    """A request, from when it was asked for until it has ended.

    Attributes:
        request: what was asked for; its prompt is token ids.
        tenant: whose it is. Drafts, histories and caches of one tenant never serve another.
        deliver: hears of every event.
    """

    request: Request
    tenant: str
    deliver: Callable[[Event], None]
    prompt: Ids = field(init=False)  # the ids as an array, which compares fast
    _started: Started | None = field(default=None, init=False)
    _is_reading: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        self.prompt = token_array(self.request.prompt)  # type: ignore[arg-type]  # it is encoded

    @property
    def started(self) -> Started:
        """Its generation, once it has begun."""
        assert self._started is not None
        return self._started

    @property
    def cache(self) -> Cache:
        """What it has computed so far."""
        return self.started.reading.sequence.cache

    def end(self, generation: Generation) -> None:
        """Say how it has ended, and let go of what it took.

        Whoever listens mostly knows the ticket. The memory would else stay until Python looks for
        cycles, which it does late: it does not know how much the core holds.
        """
        deliver, self.deliver = self.deliver, _ignore
        self._started = None
        deliver(Ended(generation))


class Pool:
    """Runs tickets, at most so many at a time; those of different tenants begin by turns.

    A prompt whose beginning another ticket of its tenant is reading waits until that is read, and
    shares it.

    Args:
        model: generates.
        parallel: most requests at a time; more than the rows of a forward are never.
        prefixes: keeps what was computed for later requests; ``None`` keeps nothing.
    """

    def __init__(self, model: Model, *, parallel: int, prefixes: PrefixCache | None) -> None:
        self._model = model
        self._parallel = min(parallel, model.engine.max_rows)
        self._prefixes = prefixes
        reclaim = None if prefixes is None else prefixes.reclaim
        self._scheduler = Scheduler(model.engine, model.drafting.cost, reclaim=reclaim)
        self._waiting: OrderedDict[str, deque[Ticket]] = OrderedDict()
        self._running: dict[TokenSequence, Ticket] = {}

    @property
    def waiting(self) -> int:
        """Tickets that have not begun."""
        return sum(map(len, self._waiting.values()))

    @property
    def running(self) -> int:
        """Tickets that have begun and not ended."""
        return len(self._running)

    def add(self, ticket: Ticket) -> None:
        """Run a ticket when its turn comes."""
        self._waiting.setdefault(ticket.tenant, deque()).append(ticket)

    def cancel(self, ticket: Ticket, error: MaglioError | None = None) -> None:
        """End a ticket here, and say so. Does nothing when it has ended."""
        queue = self._waiting.get(ticket.tenant, deque())
        if ticket in queue:
            queue.remove(ticket)
            if not queue:
                del self._waiting[ticket.tenant]
            ticket.end(Generation.failed(error) if error else _nothing())
        elif ticket._started is not None and ticket._started.reading.sequence in self._running:
            self._end(ticket, error)

    def cancel_all(self, error: MaglioError) -> None:
        """End all tickets here, and say why."""
        for ticket in [*self._running.values(), *(t for q in self._waiting.values() for t in q)]:
            self.cancel(ticket, error)

    def step(self) -> int:
        """Begin what there is a place for, and run one forward. Return how many were in it."""
        self._begin()
        progress = self._scheduler.step()
        for sequence, step, error in progress:
            ticket = self._running[sequence]
            if step is None:
                self._end(ticket, error)
                continue
            try:
                self._read(ticket, sequence, step)
            except Exception as failure:  # of its text or its cache: the others go on
                self._end(ticket, failure)
        return len(progress)

    # --- inside ----------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Fill the free places, tenant by tenant."""
        passed = 0  # tenants in a row whose next ticket cannot begin yet
        while passed < len(self._waiting) and len(self._running) < self._parallel:
            tenant, queue = next(iter(self._waiting.items()))
            self._waiting.move_to_end(tenant)
            if self._is_being_read(queue[0]):
                passed += 1
                continue
            passed = 0
            ticket = queue.popleft()
            if not queue:
                del self._waiting[tenant]
            self._start(ticket)

    def _start(self, ticket: Ticket) -> None:
        try:
            cache = self._cache(ticket)
            cached = cache.length
            request = replace(
                ticket.request, speculation=_own(ticket.request.speculation, ticket.tenant)
            )
            started = self._model.start(request, cache=cache)
        except Exception as error:  # of its source or its references: the others go on
            ticket.end(Generation.failed(error))
            return
        ticket._started = started
        ticket.deliver(Began(len(ticket.prompt), cached))
        sequence = started.reading.sequence
        self._running[sequence] = ticket
        if sequence.finish_reason is not None:  # nothing is to be generated
            self._end(ticket, None)
        else:
            self._scheduler.add(sequence)

    def _cache(self, ticket: Ticket) -> Cache:
        if self._prefixes is None:
            return self._model.engine.new_cache()
        return self._prefixes.take(ticket.prompt, tenant=ticket.tenant)

    def _is_being_read(self, ticket: Ticket) -> bool:
        """Whether a ticket of the same tenant reads a beginning that this one will share."""
        reading = [
            other
            for other in self._running.values()
            if other._is_reading and other.tenant == ticket.tenant
        ]
        if self._prefixes is None or not reading:
            return False
        held = self._prefixes.length(ticket.prompt, tenant=ticket.tenant)
        for other in reading:
            shared = common_length(other.prompt, ticket.prompt)
            cache = other.cache
            # Below a floor a cache serves only places, such as the end of a prompt.
            is_of_use = cache.floor == 0 or shared >= len(other.prompt) - 1
            if shared < held + MIN_SHARED or not is_of_use:
                continue
            if cache.length < shared:
                return True
            self._keep(other, other.prompt, cache)  # enough is read: this one begins now
        return False

    def _read(self, ticket: Ticket, sequence: TokenSequence, step: Step) -> None:
        started = ticket.started
        if ticket._is_reading and sequence.cache.length >= len(ticket.prompt):
            ticket._is_reading = False
            sequence.cache.keep()
            self._keep(ticket, ticket.prompt, sequence.cache)
        if step.tokens:
            tokens = tuple(started.reading.read(token) for token in sequence.take())
            drafted = 0 if step.draft is None else len(step.draft.tokens)
            ticket.deliver(Wrote(tokens, drafted, step.accepted))
        if sequence.finish_reason is not None:
            self._end(ticket, None)

    def _end(self, ticket: Ticket, error: Exception | None) -> None:
        started = ticket.started
        reading, sequence = started.reading, started.reading.sequence
        self._scheduler.cancel(sequence)
        del self._running[sequence]
        reading.close()
        if error is None:
            self._remember(ticket)
        result = reading.result(error)
        sequence.evict(release=True)
        ticket.end(result)

    def _remember(self, ticket: Ticket) -> None:
        """Keep what later requests can draft from and go on from."""
        sequence = ticket.started.reading.sequence
        with suppress(MemoryError):
            ticket.started.remember()
        self._keep(ticket, sequence.tokens[: sequence.cache.length], sequence.cache)

    def _keep(self, ticket: Ticket, tokens: Tokens, cache: Cache) -> None:
        if self._prefixes is None:
            return
        with suppress(MemoryError):  # what is kept is only there to save time
            self._prefixes.put(tokens, cache, tenant=ticket.tenant)


def _ignore(event: Event) -> None:
    """Nothing is said of what has ended."""


def _nothing() -> Generation:
    """A generation that was ended before it began."""
    return replace(Generation.failed(MaglioError("")), error=None)


def _own(speculation: bool | Speculation, tenant: str) -> bool | Speculation:
    """The same with a history that only this tenant's requests share."""
    if speculation is False:
        return False
    how = Speculation() if speculation is True else speculation
    return replace(how, history=tenant) if how.history is not False else how
