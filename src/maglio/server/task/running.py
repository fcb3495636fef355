"""Generations under way for one HTTP request: their events as they come, counted on the way.

Boundary: between the service's thread and the event loop; knows no text and no wire form. Leaving
``async with`` cancels what has not ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from time import perf_counter
from types import TracebackType
from typing import NamedTuple

from maglio.request import Request
from maglio.server.state import ServerState
from maglio.server.streams.event import Began, Ended, Event, Wrote
from maglio.server.streams.pool import Ticket
from maglio.server.telemetry.record import Record
from maglio.server.telemetry.usage import Usage


class Numbered(NamedTuple):
    """An event, and the number of the generation that it is of."""

    number: int
    event: Event


class Running:
    """Several generations that were asked for together.

    Args:
        requests: what to generate.
        state: the server.
        record: of the HTTP request; its tenant is whose they are.

    Raises:
        MaglioError: as :meth:`Service.submit <maglio.server.streams.service.Service.submit>`;
            nothing runs.
    """

    def __init__(self, requests: Sequence[Request], state: ServerState, record: Record) -> None:
        self._state = state
        self._record = record
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[Numbered] = asyncio.Queue()
        self._open: dict[int, Ticket] = {}
        self._last: dict[int, float] = {}  # when each had its last token
        self._tokens = [0] * len(requests)
        try:
            for index, request in enumerate(requests):
                self._open[index] = self._submit(index, request)
        except BaseException:
            self.cancel()
            raise

    def _submit(self, index: int, request: Request) -> Ticket:
        def deliver(event: Event) -> None:
            self._loop.call_soon_threadsafe(self._events.put_nowait, Numbered(index, event))

        return self._state.service.submit(request, tenant=self._record.tenant, deliver=deliver)

    async def events(self) -> AsyncIterator[Numbered]:
        """Yield the events of all generations as they come; an :class:`Ended` for each.

        Raises:
            Exception: that of a generation that failed; the others are cancelled.
        """
        while self._open:
            numbered = await self._events.get()
            self._count(numbered)
            if isinstance(numbered.event, Ended):
                del self._open[numbered.number]
                if numbered.event.generation.error is not None:
                    raise numbered.event.generation.error
            yield numbered

    def note(self, ends: Iterable[tuple[str, Usage]]) -> None:
        """Note how choices ended, for the log."""
        for reason, usage in ends:
            self._record.reasons.append(reason)
            self._record.usage.append(usage)

    def cancel(self) -> None:
        """End what has not ended."""
        for index, ticket in self._open.items():
            self._state.service.cancel(ticket)
            self._record.reasons.append("cancelled")
            self._state.metrics.ended("cancelled", self._tokens[index])
        self._open.clear()

    async def __aenter__(self) -> Running:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cancel()

    def _count(self, numbered: Numbered) -> None:
        index, event = numbered
        metrics = self._state.metrics
        if isinstance(event, Began):
            metrics.began(event.prompt_tokens, event.cached_tokens)
        elif isinstance(event, Wrote):
            self._count_tokens(index, len(event.tokens))
        else:
            generation = event.generation
            reason = "error" if generation.error is not None else generation.finish_reason
            metrics.ended(reason or "cancelled", len(generation.tokens), generation.stats)

    def _count_tokens(self, index: int, count: int) -> None:
        self._tokens[index] += count
        now = perf_counter()
        if self._record.first_token_s is None:
            self._record.first_token_s = self._record.seconds
            self._state.metrics.first_token(self._record.first_token_s)
        last = self._last.get(index)
        if last is not None and count > 0:
            self._state.metrics.tokens(count, now - last)
        self._last[index] = now
