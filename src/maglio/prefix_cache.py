"""What earlier streams have left in caches, so that no beginning is computed twice.

Boundary: keeps forks of caches by their tokens, bounded, and hands out new ones. It runs no
forward, and what is in a cache is the engine's matter: a stream on a cache from here gives, to the
bit, what it gives on an empty one.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from maglio.checks import check_int
from maglio.engine.base import Cache, CacheSaver, Engine, SavedCache
from maglio.errors import InvalidArgumentError
from maglio.machine import available_memory
from maglio.prefix_recency import Recency
from maglio.prefix_tree import Ids, Match, Node, PrefixTree
from maglio.saved_caches import load_caches, save_caches
from maglio.tokens import Tokens, token_array

POSITION_BYTES = 100_000
"""What a position counts in caches that do not tell; about that of a model of a few billions."""

_EVERYBODY = bytes(32)
"""The owner of caches that all tenants use."""

_MAX_BYTES = 1 << 60
_SHARE = 4  # of the available memory, where nothing is said
_LEAST_CUT = 64  # positions: a page of the native engine


def default_prefix_bytes() -> int:
    """A quarter of the available memory; none where the system does not say."""
    return (available_memory() or 0) // _SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixStats:
    """What a prefix cache has done, and what it holds.

    Attributes:
        requests: caches that were asked for.
        hits: those of them that were not empty.
        hit_tokens: positions in them, which nobody had to compute again.
        tokens: positions held; beginnings that streams share count once.
        bytes: memory held; pages that caches share count once.
        evictions: caches that were dropped or cut shorter to make room.
    """

    requests: int = 0
    hits: int = 0
    hit_tokens: int = 0
    tokens: int = 0
    bytes: int = 0
    evictions: int = 0


class PrefixCache:
    """Forks of the caches of earlier streams, by their tokens.

    A cache is kept for every stream that was put and is not the beginning of another. Streams that
    were begun on a cache from here share its pages. Where caches cannot be cut to every length
    (recurrent layers), each place that one can go back to is kept too. When the bound is passed,
    what was used least recently is cut shorter from its end, or dropped.

    Several threads may use it.

    Args:
        engine: of all caches.
        max_bytes: most memory held; shared pages count once.
        shared: all tenants use the same caches. Otherwise none gets another's, from whose length it
            could tell what that one had sent.

    Raises:
        InvalidArgumentError: ``max_bytes`` is out of range.
    """

    def __init__(self, engine: Engine, *, max_bytes: int, shared: bool = False) -> None:
        check_int("max_bytes", max_bytes, 0, _MAX_BYTES)
        self._engine = engine
        self._max_bytes = max_bytes
        self._shared = shared
        self._lock = Lock()
        self._trees: dict[bytes, PrefixTree] = {}  # by owner
        self._recency = Recency()
        self._memory = _Memory()
        self._now = 0
        self._requests = self._hits = self._hit_tokens = self._evictions = 0

    @property
    def stats(self) -> PrefixStats:
        """What it has done so far, and what it holds now."""
        with self._lock:
            return PrefixStats(
                requests=self._requests,
                hits=self._hits,
                hit_tokens=self._hit_tokens,
                tokens=sum(len(node.label) for _, node in self._nodes()),
                bytes=self._memory.bytes,
                evictions=self._evictions,
            )

    def take(self, tokens: Tokens, *, tenant: str) -> Cache:
        """Return a new cache of the longest known beginning of ``tokens``.

        The last token is never in it, so that feeding the rest gives a row. It is the caller's, and
        can go back to where it began.

        Args:
            tokens: ids of a prompt.
            tenant: whose streams it may come from.

        Raises:
            InvalidArgumentError: ``tokens`` holds something else than ids.
            OutOfMemoryError: there is no memory for it.
        """
        ids = token_array(tokens)
        with self._lock:
            self._requests += 1
            tree = self._trees.get(self._owner(tenant), PrefixTree())
            match = tree.match(ids[:-1])
            found = tree.longest(match)
            if found is None:
                return self._engine.new_cache()
            cache = found.cache.fork(found.length)
            cache.keep()
            self._touch(match, found.node)
            self._hits += 1
            self._hit_tokens += found.length
            return cache

    def length(self, tokens: Tokens, *, tenant: str) -> int:
        """How many positions :meth:`take` would give; counts as no request.

        Raises:
            InvalidArgumentError: ``tokens`` holds something else than ids.
        """
        ids = token_array(tokens)
        with self._lock:
            tree = self._trees.get(self._owner(tenant), PrefixTree())
            found = tree.longest(tree.match(ids[:-1]))
            return 0 if found is None else found.length

    def put(self, tokens: Tokens, cache: Cache, *, tenant: str) -> None:
        """Keep what a cache holds; the caller goes on with it.

        Args:
            tokens: ids of the stream; those beyond the length of the cache are ignored.
            cache: holds a beginning of them.
            tenant: whose stream it is.

        Raises:
            InvalidArgumentError: the cache holds more than ``tokens``, or these are no ids.
            OutOfMemoryError: there is no memory for it.
        """
        ids = token_array(tokens)
        if cache.length > len(ids):
            raise InvalidArgumentError(
                f"the cache holds {cache.length} positions and tokens has {len(ids)}; give all "
                "tokens that are in it"
            )
        with self._lock:
            for kept in _places(cache):
                self._keep(self._owner(tenant), ids[: kept.length], kept)
            self._make_room(self._max_bytes)

    def release(self, n_bytes: int) -> int:
        """Give memory back at once, of what was used least recently.

        Args:
            n_bytes: how much is wanted.

        Returns:
            How much is held less; 0 when nothing was held. Pages in it that running streams share
            are free when these end.

        Raises:
            InvalidArgumentError: ``n_bytes`` is negative.
        """
        check_int("n_bytes", n_bytes, 0, _MAX_BYTES)
        with self._lock:
            before = self._memory.bytes
            self._make_room(max(0, before - n_bytes))
            return before - self._memory.bytes

    def reclaim(self) -> bool:
        """Give an eighth of the memory back: for a scheduler that has none.

        Returns:
            Whether there was any.
        """
        with self._lock:
            held = self._memory.bytes
            self._make_room(held - math.ceil(held / 8))
            return held > 0

    def clear(self) -> None:
        """Give all memory back."""
        with self._lock:
            self._trees.clear()
            self._recency = Recency()
            self._memory = _Memory()

    def save(self, folder: Path) -> bool:
        """Save all caches in a file that only the user can read; an earlier one is replaced.

        Other threads may go on meanwhile. The file is whole at any moment, and no larger than the
        bound and the ids of all tokens. Tenants are in it as digests.

        Args:
            folder: where the file is; made if it is not there.

        Returns:
            Whether the engine's caches can be saved; nothing is done otherwise.

        Raises:
            CacheFileError: it cannot be written.
        """
        if not isinstance(self._engine, CacheSaver):
            return False
        with self._lock:
            n_bytes = self._memory.bytes
            held = [
                (node.used, SavedCache(owner, node.tokens(), node.cache))
                for owner, tree in self._trees.items()
                for node in tree
                if node.cache is not None
            ]
        held.sort(key=lambda pair: -pair[0])  # what is used last is read first
        save_caches(folder, self._engine, [saved for _, saved in held], n_bytes)
        return True

    def load(self, folder: Path) -> bool:
        """Hold what :meth:`save` saved in ``folder``, as far as there is room for it.

        A file that is damaged, or that another model, precision or build wrote, is left alone, with
        a :class:`RuntimeWarning` that says why.

        Returns:
            Whether anything was loaded.
        """
        if not isinstance(self._engine, CacheSaver):
            return False
        room = self._max_bytes - self.stats.bytes
        loaded = load_caches(folder, self._engine, max(0, room))
        with self._lock:
            for owner, tokens, cache in reversed(loaded):
                if self._shared:
                    owner = _EVERYBODY
                elif owner == _EVERYBODY:
                    continue  # nobody's alone
                self._keep(owner, tokens, cache)
            self._make_room(self._max_bytes)
        return bool(loaded)

    # --- inside, with the lock held --------------------------------------------------------------

    def _owner(self, tenant: str) -> bytes:
        """A digest: tenants may be known by secrets."""
        return _EVERYBODY if self._shared else hashlib.sha256(tenant.encode()).digest()

    def _nodes(self) -> list[tuple[PrefixTree, Node]]:
        return [(tree, node) for tree in self._trees.values() for node in tree]

    def _touch(self, match: Match, end: Node) -> None:
        """A stream was used, which ends at a node or on the edge to it.

        Caches on the way there were not: a longer one is there in their place.
        """
        self._now += 1
        for node in match.path:
            if node.cache is None:
                node.used = self._now
        end.used = self._now

    def _keep(self, owner: bytes, ids: Ids, cache: Cache) -> None:
        """Hold a cache, unless another serves whatever it would."""
        tree = self._trees.setdefault(owner, PrefixTree())
        match = tree.match(ids)
        if match.length < len(ids) or match.below.floor > cache.floor:
            replaced = tree.insert(match, ids, cache)
            self._memory.add(cache)
            for old in replaced:
                self._memory.remove(old)
            match = tree.match(ids)
            self._recency.add(owner, match.below)
        self._touch(match, match.below)

    def _make_room(self, limit: int) -> None:
        while self._memory.bytes > limit:
            held = self._recency.first()
            tree = self._trees[held.owner]
            self._evict(tree, held.node, self._memory.bytes - limit)
            if not tree.root.children:
                del self._trees[held.owner]

    def _evict(self, tree: PrefixTree, node: Node, surplus: int) -> None:
        """Cut a cache shorter by about as many bytes, if it can be, or drop it."""
        cache, parent = node.cache, node.parent
        assert cache is not None
        assert parent is not None
        self._evictions += 1
        too_many = math.ceil(surplus * cache.length / self._memory.of(cache))
        length = cache.length - max(_LEAST_CUT, too_many)
        self._memory.remove(cache)
        if cache.floor > 0 or node.children or length <= parent.depth:
            tree.remove(node)
            return
        shorter = cache.fork(length)
        tree.shorten(node, shorter)
        self._memory.add(shorter)


class _Memory:
    """The pages of all caches held, each counted once."""

    def __init__(self) -> None:
        self.bytes = 0
        self._users: Counter[int] = Counter()

    def of(self, cache: Cache) -> int:
        """Bytes of a cache that is held, shared ones too."""
        return sum(_pages(cache).values())

    def add(self, cache: Cache) -> None:
        """Count a cache."""
        for page, size in _pages(cache).items():
            self._users[page] += 1
            if self._users[page] == 1:
                self.bytes += size

    def remove(self, cache: Cache) -> None:
        """Count a cache no more."""
        for page, size in _pages(cache).items():
            self._users[page] -= 1
            if self._users[page] == 0:
                del self._users[page]
                self.bytes -= size


def _pages(cache: Cache) -> Mapping[int, int]:
    """The bytes of each page of a cache; one page of all positions where a cache does not tell."""
    pages: Mapping[int, int] | None = getattr(cache, "pages", None)
    return {id(cache): cache.length * POSITION_BYTES} if pages is None else pages


def _places(cache: Cache) -> list[Cache]:
    """Forks of a cache: whole, and at each place below its floor that it can go back to."""
    forks = [cache.fork(cache.length)] if cache.length > 0 else []
    while forks and forks[-1].floor > 0:
        place = forks[-1].fork(forks[-1].length)
        if place.truncate(place.floor - 1) == 0:
            break
        forks.append(place)
    return forks[::-1]
