"""Model families: one page each, found by listing this folder.

A page is a function from a file's metadata to the shape of its model, named by the architecture::

    @family("qwen3")
    def qwen3(keys: Keys) -> ModelSpec: ...
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping

from maglio._core import ModelSpec
from maglio.engine.native.keys import Keys

Family = Callable[[Keys], ModelSpec]

_families: dict[str, Family] = {}


def family(architecture: str) -> Callable[[Family], Family]:
    """Register a page for files whose ``general.architecture`` is ``architecture``."""

    def register(page: Family) -> Family:
        _families[architecture] = page
        return page

    return register


@functools.cache
def all_families() -> Mapping[str, Family]:
    """Every page of this folder, by architecture."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return _families
