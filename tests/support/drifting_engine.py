"""The native engine, but for rounding that depends on what is computed together: a stand-in for
engines that cannot keep the row law, as other packages bring them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from maglio.engine.registry import Opened
from maglio.native_model import open_native


class DriftingEngine:
    """Adds up to ``drift`` to each logit of a forward with more than one token."""

    name = "drifting"
    exactness_remedy = "stop drifting"

    def __init__(self, engine: Any, drift: float, claim: str) -> None:
        self._engine = engine
        self._drift = drift
        self.exactness = claim
        self.widths: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def forward(self, batch: Any) -> Any:
        rows = self._engine.forward(batch)
        width = sum(len(segment.tokens) for segment in batch)
        self.widths.append(width)
        return rows if width == 1 else [self._drifted(segment, width) for segment in rows]

    def _drifted(self, rows: np.ndarray, width: int) -> np.ndarray:
        moved = [row + self._away(row, width) for row in rows]
        return np.stack(moved).astype(np.float32) if moved else rows

    def _away(self, row: np.ndarray, width: int) -> np.ndarray:
        rng = np.random.default_rng([width, zlib.crc32(row.tobytes())])
        return rng.uniform(-self._drift, self._drift, len(row))


class StubbornEngine(DriftingEngine):
    """Says that it is bitwise, and does not let itself be told otherwise."""

    @property
    def exactness(self) -> str:
        return "bitwise"

    @exactness.setter
    def exactness(self, value: str) -> None:
        if value != "bitwise":
            raise AttributeError("it cannot be set")


class EntryPoint:
    """As an installed package has it."""

    def __init__(self, name: str, opener: Callable[..., Opened]) -> None:
        self.name = name
        self._opener = opener

    def load(self) -> Callable[..., Opened]:
        return self._opener


def drifting(
    drift: float, claim: str = "distribution", engine: type[DriftingEngine] = DriftingEngine
) -> EntryPoint:
    """An installed engine, which takes no options but those that every engine takes."""

    def open_drifting(path: Any, /, *, n_ctx: int, threads: int | None, kv_cache: str) -> Opened:
        opened = open_native(path, n_ctx=n_ctx, threads=threads, kv_cache=kv_cache)
        return Opened(engine(opened.engine, drift, claim), *opened[1:])

    return EntryPoint("drifting", open_drifting)
