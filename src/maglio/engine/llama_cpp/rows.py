"""Rows of logits that are lent from the library's own memory.

Boundary: who may still read them. Computes nothing.

A forward overwrites the rows of the last one, which is what the seam allows, as a thread knows of
its own forwards. Two threads do not know of each other's. So as soon as a second one comes, each
gets a copy; and before it overwrites what was lent to the first one, it waits until that is given
back, by the last reader or by the next forward of the first.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np

from maglio.engine.base import Logits
from maglio.errors import EngineError

PATIENCE = 30.0
"""Seconds to wait for rows that another thread reads."""


class _Lent:
    """Memory as numpy takes it. An array of it keeps this alive, and this the owner."""

    __slots__ = ("__array_interface__", "__weakref__", "_owner")

    def __init__(self, address: int, shape: tuple[int, int], owner: object) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": shape,
            "typestr": "<f4",
        }
        self._owner = owner


class LentRows:
    """Lends the rows of one context."""

    def __init__(self) -> None:
        self._thread: int | None = None
        self._is_shared = False
        self._free = threading.Event()
        self._free.set()
        self._lent: weakref.ref[Any] | None = None

    def give_back(self) -> None:
        """Give up, before a forward, what this thread got from its last one."""
        if self._thread == threading.get_ident():
            self._free.set()

    def claim(self) -> None:
        """Wait, before a forward, until no other thread reads.

        Raises:
            EngineError: one still does after half a minute.
        """
        thread = threading.get_ident()
        self._is_shared = self._is_shared or self._thread not in (None, thread)
        if not self._free.wait(PATIENCE):
            raise EngineError(
                "another thread still holds the rows of its last forward; drop them, or copy them, "
                "before a second thread uses the engine"
            )
        self._thread = thread

    def lend(self, address: int, n_rows: int, n_vocab: int, owner: object) -> Logits:
        """Rows at an address, float32 ``(n_rows, n_vocab)``.

        Args:
            address: of the first number.
            n_rows: how many.
            n_vocab: numbers in one.
            owner: is kept alive with them.
        """
        lent = _Lent(address, (n_rows, n_vocab), owner)
        rows: Logits = np.asarray(lent)
        if self._is_shared:
            return rows.copy()
        self._free.clear()
        self._lent = weakref.ref(lent, lambda _: self._free.set())
        return rows
