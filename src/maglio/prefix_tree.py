"""A radix tree over token ids, whose nodes may hold a cache of the tokens that lead to them.

Boundary: which caches begin like a stream, and how far they go with it. How many are kept, and
whose they are, is said by :mod:`maglio.prefix_cache`.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from maglio.engine.base import Cache

Ids = npt.NDArray[np.int32]

_NOWHERE = 1 << 62
"""The floor of what has no cache at all."""


class Node:
    """The end of an edge.

    Args:
        label: the tokens of the edge; none at the root.
        depth: how many tokens lead here from the root.
        parent: where the edge begins; ``None`` for the root.

    Attributes:
        children: by the first token of their edges.
        cache: of exactly the tokens that lead here.
        floor: the shortest length that a cache here or further down can be cut to.
        used: when it was used last; higher is later.
    """

    __slots__ = ("__weakref__", "_parent", "cache", "children", "depth", "floor", "label", "used")

    def __init__(self, label: Ids, depth: int, parent: Node | None) -> None:
        self.label = label
        self.depth = depth
        self.parent = parent
        self.children: dict[int, Node] = {}
        self.cache: Cache | None = None
        self.floor = _NOWHERE
        self.used = 0

    @property
    def parent(self) -> Node | None:
        """Where the edge begins."""
        return None if self._parent is None else self._parent()

    @parent.setter
    def parent(self, node: Node | None) -> None:
        # Weak, so that the memory of all caches is free as soon as nobody needs the tree.
        self._parent = None if node is None else weakref.ref(node)

    def tokens(self) -> Ids:
        """All tokens that lead here."""
        labels: list[Ids] = []
        node: Node | None = self
        while node is not None:
            labels.append(node.label)
            node = node.parent
        return np.concatenate(labels[::-1])


class Match(NamedTuple):
    """How far a stream goes down the tree.

    Attributes:
        path: the nodes that it reaches, from the root.
        child: the node on whose edge it ends; ``None`` when it ends at the last of ``path``.
        length: how many of its first tokens are in the tree.
    """

    path: list[Node]
    child: Node | None
    length: int

    @property
    def below(self) -> Node:
        """The node under which all caches begin with these tokens."""
        return self.path[-1] if self.child is None else self.child


class Found(NamedTuple):
    """A cache that serves a beginning of a stream.

    Attributes:
        cache: can be cut to ``length``.
        length: of the beginning.
        node: ends it, or is the next one below its end; the cache is there or further down.
    """

    cache: Cache
    length: int
    node: Node


class PrefixTree:
    """Caches by their tokens. A cache serves every length from its floor to its end."""

    def __init__(self) -> None:
        self.root = Node(np.empty(0, np.int32), 0, None)

    def __iter__(self) -> Iterator[Node]:
        """Every node."""
        stack = [self.root]
        while stack:
            node = stack.pop()
            stack += node.children.values()
            yield node

    def match(self, tokens: Ids) -> Match:
        """Go down the tree as far as ``tokens`` lead."""
        path, length = [self.root], 0
        while length < len(tokens):
            child = path[-1].children.get(int(tokens[length]))
            if child is None:
                break
            same = common_length(child.label, tokens[length:])
            length += same
            if same < len(child.label):
                return Match(path, child, length)
            path.append(child)
        return Match(path, None, length)

    def longest(self, match: Match) -> Found | None:
        """A cache that serves the longest beginning of what was matched."""
        depths = [(match.below, match.length)]
        depths += [(node, node.depth) for node in reversed(match.path)]
        for node, length in depths:
            if length > 0 and node.floor <= length:
                return Found(_cache_below(node, length), length, node)
        return None

    def insert(self, match: Match, tokens: Ids, cache: Cache) -> list[Cache]:
        """Hold ``cache`` where ``tokens`` lead to.

        Args:
            match: what :meth:`match` returned for ``tokens``.
            tokens: those of the cache.
            cache: to be held.

        Returns:
            The caches that are held no more: it serves whatever they did.
        """
        node = self._node_at(match, tokens)
        replaced = [] if node.cache is None else [node.cache]
        node.cache = cache
        above = node.parent
        while above is not None:
            if above.cache is not None and above.cache.floor >= cache.floor:
                replaced.append(above.cache)
                above.cache = None
            above = above.parent
        self._tidy(node)
        return replaced

    def remove(self, node: Node) -> None:
        """Hold the cache of a node no more."""
        node.cache = None
        self._tidy(node)

    def shorten(self, node: Node, cache: Cache) -> None:
        """Hold a shorter cache, that of a beginning which ends on the edge to this last node."""
        assert node.parent is not None
        node.label = node.label[: cache.length - node.parent.depth].copy()
        node.depth = cache.length
        node.cache = cache

    # --- inside ----------------------------------------------------------------------------------

    def _node_at(self, match: Match, tokens: Ids) -> Node:
        """The node at the end of ``tokens``, made if there is none."""
        top = match.path[-1]
        if match.child is not None:
            top = self._split(match.child, match.length)
        if match.length == len(tokens):
            return top
        label = tokens[match.length :].copy()
        node = Node(label, len(tokens), top)
        top.children[int(label[0])] = node
        return node

    @staticmethod
    def _split(child: Node, depth: int) -> Node:
        """Put a node on the edge that leads to ``child``."""
        parent = child.parent
        assert parent is not None
        at = depth - parent.depth
        middle = Node(child.label[:at].copy(), depth, parent)
        middle.floor, middle.used = child.floor, child.used
        parent.children[int(middle.label[0])] = middle
        middle.children[int(child.label[at])] = child
        child.label, child.parent = child.label[at:].copy(), middle
        return middle

    def _tidy(self, node: Node) -> None:
        """Drop nodes that serve nothing, join edges, and bring floors up to date up to the root."""
        at: Node | None = node
        while at is not None:
            parent = at.parent
            if parent is not None and at.cache is None and len(at.children) < 2:
                del parent.children[int(at.label[0])]
                for child in at.children.values():
                    _join(at, child)
                    parent.children[int(child.label[0])] = child
            if at.cache is not None:
                at.floor = at.cache.floor  # lower than those of longer ones, or these would serve
            else:
                floors = [child.floor for child in at.children.values()]
                at.floor = min(floors, default=_NOWHERE)
            at = parent


def _join(upper: Node, lower: Node) -> None:
    """Make two edges one."""
    lower.label = np.concatenate([upper.label, lower.label])
    lower.parent = upper.parent
    lower.used = max(lower.used, upper.used)


def _cache_below(node: Node, length: int) -> Cache:
    """A cache at or under a node that can be cut to ``length``."""
    while node.cache is None or node.cache.floor > length:
        node = next(child for child in node.children.values() if child.floor <= length)
    return node.cache


def common_length(one: Ids, other: Ids) -> int:
    """How many first tokens are the same."""
    shorter = min(len(one), len(other))
    differ = one[:shorter] != other[:shorter]
    return int(differ.argmax()) if differ.any() else shorter
