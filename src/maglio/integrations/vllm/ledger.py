"""Which row is which request: vLLM tells a draft source of its own neither ids nor ends.

Boundary: recognises requests, and forgets them. Drafts nothing.

A request is recognised by its tokens: a row of ``n`` tokens of which ``s`` are new belongs to the
request that had exactly the first ``n - s``. All of them are compared, so a request never gets
another's index. Rows move, so the row itself is only where to look first. With ids
(:mod:`maglio.integrations.vllm.worker`) the id says where to look.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from maglio.draft.member import Ids
from maglio.integrations.vllm.request import Request

_PATIENCE = 16
"""Calls that a request may be away: preempted, waiting, or in another batch of a pipeline. One that
comes back later is indexed again."""


class Row(NamedTuple):
    """What vLLM shows of a request that got tokens.

    Attributes:
        place: its row.
        tokens: all of its tokens, int32 ``(n,)``: vLLM's own memory, which changes later.
        n_new: how many of them came in this step.
        id: of the request, where it is known.
    """

    place: int
    tokens: Ids
    n_new: int
    id: str | None = None


class Ledger:
    """The requests that are drafted for."""

    def __init__(self) -> None:
        self._requests: list[Request] = []
        self._by_id: dict[str, Request] = {}
        self._call = 0

    def __len__(self) -> int:
        """How many requests are known."""
        return len(self._requests)

    @property
    def n_tokens(self) -> int:
        """Tokens of all that hold an index."""
        return sum(len(request) for request in self._requests if request.has_source)

    def recognise(self, rows: Sequence[Row]) -> list[Request | None]:
        """The request of each row, ``None`` for a new one; each request is one row's at most."""
        self._call += 1
        by_length: defaultdict[int, list[Request]] = defaultdict(list)
        for known in self._requests:
            by_length[len(known)].append(known)
        free = {id(request) for request in self._requests}
        found: list[Request | None] = []
        for row in rows:
            request = self._of(row, by_length[len(row.tokens) - row.n_new], free)
            if request is not None:
                free.discard(id(request))
            found.append(request)
        places = {r.place: r for r in self._requests if id(r) in free}
        for index, row in enumerate(rows):
            if found[index] is None and row.id is None:
                found[index] = self._behind(row, places)
        return found

    def is_next(self, row: Row, request: Request) -> bool:
        """Whether exactly one step of a request lies between the last call and this one."""
        n_missed = len(row.tokens) - row.n_new - len(request)
        return request.seen == self._call - 1 and n_missed == 0

    def see(self, row: Row, request: Request) -> None:
        """Note that a request is in a row now."""
        request.place, request.seen = row.place, self._call

    def add(self, row: Row, request: Request) -> None:
        """Know a new request."""
        self.see(row, request)
        self._requests.append(request)
        if row.id is not None:
            self._by_id[row.id] = request

    def end(self, ids: Iterable[str]) -> list[Request]:
        """Forget the requests with these ids, which have ended; return those that were known."""
        ended = [self._by_id.pop(name) for name in ids if name in self._by_id]
        gone = set(map(id, ended))
        self._requests = [request for request in self._requests if id(request) not in gone]
        return ended

    def forget(self, *, patience: int = _PATIENCE) -> list[Request]:
        """Forget who was away for more than ``patience`` calls; return them."""
        oldest = self._call - patience
        gone = [request for request in self._requests if request.seen < oldest]
        if gone:
            self._requests = [request for request in self._requests if request.seen >= oldest]
            self._by_id = {name: r for name, r in self._by_id.items() if r.seen >= oldest}
        return gone

    def _of(self, row: Row, alike: list[Request], free: set[int]) -> Request | None:
        """The request that had all but the new tokens of a row."""
        if row.id is not None:
            request = self._by_id.get(row.id)
            alike = [] if request is None else [request]
        before = row.tokens[: len(row.tokens) - row.n_new]
        for request in sorted(alike, key=lambda request: request.place != row.place):
            if id(request) in free and request.begins(before):
                return request
        return None

    @staticmethod
    def _behind(row: Row, places: dict[int, Request]) -> Request | None:
        """The request that was in this row before steps in which nobody looked."""
        request = places.get(row.place)
        if request is None or not request.begins(row.tokens[: len(row.tokens) - row.n_new]):
            return None
        del places[row.place]
        return request
