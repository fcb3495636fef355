"""Settings tried in turn on the loaded model, until its rows are exact.

Boundary: makes engines of files, and has their rows compared. Knows no text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from maglio import machine
from maglio.engine.llama_cpp import library, settings
from maglio.engine.llama_cpp.comparison import is_exact
from maglio.engine.llama_cpp.context import MAX_OUTPUTS, PAD, Context
from maglio.engine.llama_cpp.engine import LlamaCppEngine
from maglio.engine.llama_cpp.model import LlamaModel, Offload
from maglio.engine.llama_cpp.settings import Settings
from maglio.errors import ModelFileError, OutOfMemoryError

_STREAMS = 4
"""Streams for whose whole contexts there is room, where nothing is said; fewer, where there is not
the memory, but not where each has a cache of its own: to compare rows takes as many."""

_SHARED_STATES, _OWN_STATES = 16, 8
"""Sequences of a model with recurrent layers, each of which takes the memory of its states."""

_SHARE = 4  # of the available memory, for the caches of all streams, where nothing is said
_VALUE_BYTES = {"f16": 2.0, "bf16": 2.0, "q8_0": 34 / 32}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to open, but for the settings.

    Attributes:
        path: a GGUF file that Maglio's own reader found sound; of a split model its first part.
        n_ctx: most positions of a cache.
        cache_tokens: positions of all streams together; ``None`` for what there is room for.
        threads: threads on the CPU.
        offload: what runs on GPUs.
        on_load: is called now and then with the fraction done, each time that the model is loaded.
    """

    path: Path
    n_ctx: int
    cache_tokens: int | None
    threads: int
    offload: Offload
    on_load: Callable[[float], object] | None = None


def open_fast(plan: Plan, kv_cache: str) -> LlamaCppEngine:
    """Open a model as the library does by default. Nothing is promised of its rows.

    Raises:
        ModelFileError: llama.cpp cannot load the model, or it is not a causal language model.
        OutOfMemoryError: it does not fit in memory.
    """
    chosen = settings.fast(kv_cache)
    return _engine(_model(plan, chosen), plan, chosen)


def open_exact(plan: Plan, kv_cache: str) -> LlamaCppEngine:
    """Open a model with the fastest settings that give exact rows on it.

    Where none do, the engine promises a distribution.

    Raises:
        ModelFileError: llama.cpp cannot load the model, or it is not a causal language model.
        OutOfMemoryError: it does not fit in memory.
    """
    library.prefer_exact_products()
    model: LlamaModel | None = None
    repacked: bool | None = None
    engine: LlamaCppEngine | None = None
    problem: ModelFileError | None = None
    for tried in settings.exact(kv_cache, two_products=library.has_two_products()):
        engine = None  # its memory goes before there is another
        if model is None or tried.repacked != repacked:
            model = None
            model, repacked = _model(plan, tried), tried.repacked
        try:
            engine = _engine(model, plan, tried)
        except ModelFileError as error:  # some settings do not work with every model
            problem = error.with_traceback(None)  # its frames hold the model
            continue
        if is_exact(engine):
            engine.exactness = "bitwise"
            break
    if engine is None:
        raise problem or ModelFileError(f"llama.cpp cannot run {plan.path}")
    return engine


def _model(plan: Plan, chosen: Settings) -> LlamaModel:
    return LlamaModel(plan.path, plan.offload, repacked=chosen.repacked, on_load=plan.on_load)


def _engine(model: LlamaModel, plan: Plan, chosen: Settings) -> LlamaCppEngine:
    n_ctx = min(plan.n_ctx, model.n_ctx_train or plan.n_ctx)
    whole = _padded(n_ctx)
    size = model.position_values * _VALUE_BYTES[chosen.kv_cache]
    n_cells = _cells(plan, whole, size)
    n_sequences = MAX_OUTPUTS
    if model.has_states:
        n_sequences = _SHARED_STATES if chosen.shared_cells else _OWN_STATES
    elif not chosen.shared_cells:
        n_sequences = max(_STREAMS, min(n_cells // whole, MAX_OUTPUTS))
    if plan.offload.is_cpu:
        _check_memory(n_cells if chosen.shared_cells else whole * n_sequences, size)
    context = Context(
        model,
        chosen,
        plan.offload,
        n_cells=n_cells if chosen.shared_cells else whole,
        n_sequences=n_sequences,
        threads=plan.threads,
    )
    return LlamaCppEngine(context, n_ctx=n_ctx, threads=plan.threads)


def _cells(plan: Plan, whole: int, size: float) -> int:
    """Positions of all streams together, at least of one."""
    if plan.cache_tokens is not None:
        return max(whole, _padded(plan.cache_tokens))
    cells = _STREAMS * whole
    available = machine.available_memory()
    if available is not None and size > 0:
        cells = min(cells, int(available / _SHARE / size) // PAD * PAD)
    return max(whole, cells)


def _check_memory(n_cells: int, size: float) -> None:
    available = machine.available_memory()
    if available is not None and n_cells * size > available:
        raise OutOfMemoryError(
            f"caches of {n_cells} positions need about {n_cells * size / 1e6:,.0f} MB, and "
            f"{available / 1e6:,.0f} MB are available; load the model with a smaller n_ctx, or "
            "fewer cache_tokens"
        )


def _padded(n: int) -> int:
    return -(-n // PAD) * PAD
