"""How llama.cpp computes: what decides whether its rows depend on what is computed beside them.

Boundary: values and their order. Knows neither the library nor a model.

No setting is exact for every build, processor and model. So those that may be are tried in turn,
fastest first, on the loaded model (:mod:`maglio.engine.llama_cpp.ladder`). What each is about:

- Streams that share cells of one cache are summed in the order of cells, which depends on the
  neighbours. Exact settings give each stream a cache of its own.
- Repacked weights have kernels for groups of four rows.
- Without flash attention, the products of attention are matrix products like others, which some
  builds compute with another kernel for two rows and more. With it, float16 keys of one row are
  summed by as many pieces as there are threads; bfloat16 and 8-bit keys are not.
- Few rows at a time have fewer kernels to choose from. One row at a time has one. Then a row never
  depends on others, and verifying a draft costs as much as plain decoding. The library takes more
  rows at a time than that where there are several streams, so each is a forward of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

WIDEST = 512
"""Most rows computed at a time."""

_FEW = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One way to compute.

    Attributes:
        kv_cache: data type of keys and values: ``f16``, ``bf16`` or ``q8_0``.
        flash_attention: ``on``, ``off``, or ``auto`` for what the library thinks best.
        repacked: weights are arranged anew for the processor, where there is an arrangement.
        shared_cells: all streams are in the cells of one cache; else each has a part of its own.
        rows: most rows computed at a time.
        streams_apart: each stream is a forward of its own.
    """

    kv_cache: str
    flash_attention: Literal["auto", "on", "off"] = "auto"
    repacked: bool = True
    shared_cells: bool = True
    rows: int = WIDEST
    streams_apart: bool = False

    def __str__(self) -> str:
        parts = [f"{self.kv_cache} cache", f"flash attention {self.flash_attention}"]
        parts += [] if self.repacked else ["weights not repacked"]
        parts += [] if self.shared_cells else ["a cache for each stream"]
        parts += [] if self.rows == WIDEST else [f"{self.rows} rows at a time"]
        parts += ["streams apart"] if self.streams_apart else []
        return ", ".join(parts)


def fast(kv_cache: str) -> Settings:
    """What the library does by default."""
    return Settings(kv_cache=kv_cache)


def exact(kv_cache: str, *, two_products: bool) -> Iterator[Settings]:
    """What may be exact, fastest first; the last one is, on every CPU.

    Args:
        kv_cache: data type of keys and values; half precision may become another one.
        two_products: the build has other matrix products for two rows and more.
    """
    quantized = kv_cache == "q8_0"
    whole = Settings(
        kv_cache=kv_cache, flash_attention="on" if quantized else "off", shared_cells=False
    )
    flash = whole if quantized else replace(whole, kv_cache="bf16", flash_attention="on")
    for repacked in (True, False):
        if quantized or not two_products:
            yield replace(whole, repacked=repacked)
        if not quantized:
            yield replace(flash, repacked=repacked)
    yield replace(flash, repacked=False, rows=_FEW, streams_apart=True)
    yield replace(whole, repacked=False, rows=1, streams_apart=True)
