"""Which node of the prefix trees was used least recently.

Boundary: an order of nodes that hold caches; frees nothing.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import NamedTuple

from maglio.prefix_tree import Node

_FEW = 64


class Held(NamedTuple):
    """A node that holds a cache.

    Attributes:
        used: when it was used last, as far as is known; it may have been used since.
        serial: tells those apart that were used at the same time.
        owner: whose tree it is in.
        node: the node.
    """

    used: int
    serial: int
    owner: bytes
    node: Node


class Recency:
    """Nodes by when they were used last. Nobody has to say when a node is used or let go.

    ``used`` of a node only grows. So an entry is never later than its node, and is corrected when
    it comes first: what :meth:`first` costs is logarithmic, for each time that the node was used.
    """

    def __init__(self) -> None:
        self._heap: list[Held] = []
        self._serials = count()
        self._nodes: set[Node] = set()  # of the entries
        self._most = _FEW

    def __len__(self) -> int:
        """Entries, those of nodes that hold nothing any more among them."""
        return len(self._heap)

    def add(self, owner: bytes, node: Node) -> None:
        """A node holds a cache now. It may be there already."""
        if node not in self._nodes:
            self._nodes.add(node)
            heapq.heappush(self._heap, Held(node.used, next(self._serials), owner, node))
            if len(self._heap) > self._most:
                self._tidy()

    def first(self) -> Held:
        """What was used least recently. There must be something."""
        while True:
            held = self._heap[0]
            if held.node.cache is None:
                heapq.heappop(self._heap)
                self._nodes.remove(held.node)
            elif held.used < held.node.used:
                heapq.heapreplace(self._heap, held._replace(used=held.node.used))
            else:
                return held

    def _tidy(self) -> None:
        """Forget nodes that hold nothing, each time that there may be as many as others."""
        self._heap = [held for held in self._heap if held.node.cache is not None]
        heapq.heapify(self._heap)
        self._nodes = {held.node for held in self._heap}
        self._most = _FEW + 2 * len(self._heap)
