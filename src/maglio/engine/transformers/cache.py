"""A transformers cache of one sequence, behind the seam of :mod:`maglio.engine.base`.

Boundary: holds, cuts and copies what a model has left in its cache layers. Runs no model.

A full cache layer grows by concatenation and never writes into a tensor that it has. So layers
can share tensors, and what a forward has left in them beyond :attr:`TransformersCache.length` is
cut off before the next use. The layers of sliding attention are made full ones: then a cut is
exact, and the model's mask still leaves out what is beyond the window. Any other layer, such as a
recurrent one, may write in place; a forward gets a copy of it, and it cannot be cut.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from transformers import DynamicCache
from transformers.cache_utils import DummyLayer, DynamicLayer, DynamicSlidingWindowLayer

from maglio.checks import check_int
from maglio.errors import InvalidArgumentError

_KEPT = 4
"""Places that a cache which cannot be cut comes back to."""


class _Place(NamedTuple):
    """Layers, and how many positions of them count. Full layers may hold more."""

    length: int
    layers: list[Any]


class CacheKind:
    """Which layers the caches of a model have.

    Args:
        config: the model's configuration.

    Attributes:
        can_cut: whether all layers can be cut at every length.
    """

    def __init__(self, config: Any) -> None:  # noqa: ANN401 (transformers has one class per model)
        self._config = config
        self.can_cut = all(type(layer) in (DynamicLayer, DummyLayer) for layer in self.layers())

    def layers(self) -> list[Any]:
        """New, empty layers."""
        layers = DynamicCache(config=self._config).layers
        return [
            DynamicLayer() if type(layer) is DynamicSlidingWindowLayer else layer
            for layer in layers
        ]

    def holding(self, layers: list[Any]) -> DynamicCache:
        """The layers as a model takes them."""
        cache = DynamicCache(config=self._config)
        cache.layers = layers
        return cache


class TransformersCache:
    """What one sequence has left in a model.

    Args:
        kind: which layers there are.
        place: what they hold; nothing when ``None``.
        kept: places to come back to.
    """

    def __init__(
        self, kind: CacheKind, place: _Place | None = None, kept: tuple[_Place, ...] = ()
    ) -> None:
        self.kind = kind
        self._place = _Place(0, kind.layers()) if place is None else place
        self._kept = kept

    @property
    def length(self) -> int:
        """Positions held."""
        return self._place.length

    @property
    def floor(self) -> int:
        """The shortest length that :meth:`truncate` can reach without starting over."""
        return 0 if self.kind.can_cut else self.length

    def truncate(self, length: int) -> int:
        """See :meth:`maglio.engine.base.Cache.truncate`."""
        check_int("length", length, 0, self.length)
        self._place = self._at(length)
        self._kept = tuple(place for place in self._kept if place.length <= length)
        return self.length

    def keep(self) -> None:
        """See :meth:`maglio.engine.base.Cache.keep`."""
        if not self.kind.can_cut and self.length > 0:
            earlier = [place for place in self._kept if place.length < self.length]
            self._kept = (*earlier[1 - _KEPT :], self._place)

    def fork(self, length: int) -> TransformersCache:
        """See :meth:`maglio.engine.base.Cache.fork`. Tensors are shared: none changes."""
        check_int("length", length, 0, self.length)
        if length < self.floor:
            raise InvalidArgumentError(
                f"length is {length}, must be at least {self.floor}: this model has layers that "
                "cannot be cut"
            )
        place = self._at(length)
        return TransformersCache(self.kind, _Place(place.length, _copies(place.layers)), self._kept)

    def begin(self) -> list[Any]:
        """Layers for a forward to append to. Until :meth:`commit` the cache holds what it held."""
        if not self.kind.can_cut:
            return copy.deepcopy(self._place.layers)
        if self.length == 0:  # an interrupted forward may have left half a beginning
            self._place = _Place(0, self.kind.layers())
        for layer in self._place.layers:
            _cut(layer, self.length)
        return self._place.layers

    def commit(self, layers: list[Any], added: int) -> None:
        """Hold what a forward has left in the layers of :meth:`begin`."""
        self._place = _Place(self.length + added, layers)

    def _at(self, length: int) -> _Place:
        """What is held up to ``length``; where that cannot be had, up to a place before it."""
        if length == 0:
            return _Place(0, self.kind.layers())
        if self.kind.can_cut:
            layers = _copies(self._place.layers)
            for layer in layers:
                _cut(layer, length)
            return _Place(length, layers)
        if length == self.length:
            return self._place
        kept = [place for place in self._kept if place.length <= length]
        return kept[-1] if kept else _Place(0, self.kind.layers())


def _copies(layers: list[Any]) -> list[Any]:
    """Layers of the same tensors, to each of which another one can be assigned."""
    return [copy.copy(layer) for layer in layers]


def _cut(layer: Any, length: int) -> None:  # noqa: ANN401 (a layer of whichever class)
    """Keep ``length`` positions of a full layer, also where a forward was interrupted in it."""
    if type(layer) is DynamicLayer and layer.is_initialized:
        layer.keys = layer.keys[..., :length, :]
        layer.values = layer.values[..., :length, :]
