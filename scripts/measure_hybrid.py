"""Measure what verifying and taking back costs on a hybrid: random weights of a real shape.

Writes a Qwen3.5-0.8B of random Q4_K weights to FOLDER unless it is there, and prints, in plain
steps, a forward of k rows that all stand, and one of which only the first stands with the rows that
it makes the next forward run again. Kinds of steps take turns; figures are medians (minimum to
maximum) of ratios within a turn. Where llama-cpp-python is installed, its plain step too.

    python scripts/measure_hybrid.py FOLDER [THREADS] [CONTEXT]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from maglio.engine.native import NativeEngine
from maglio.engine.session import Session
from maglio.gguf import ModelFile
from support.models import QWEN35_08B, write_model

TURNS = 15
ROWS = (2, 4, 8, 16)


def seconds(action: Callable[[], object]) -> float:
    begin = perf_counter()
    action()
    return perf_counter() - begin


def main() -> None:
    folder = Path(sys.argv[1])
    threads = int(sys.argv[2]) if len(sys.argv) > 2 else None
    context = int(sys.argv[3]) if len(sys.argv) > 3 else 128
    path = folder / "qwen35-0.8b-q4_k.gguf"
    if not path.exists():
        write_model(path, "qwen35", QWEN35_08B, "Q4_K")
    engine = NativeEngine(ModelFile(path), threads=threads)
    tokens = np.random.default_rng(0).integers(0, engine.n_vocab, context + 64).tolist()
    session = Session(engine)
    begin = perf_counter()
    session.prefill(tokens[:context])
    print(f"{engine.weight_bytes / 1e6:.0f} MB of weights, {engine.threads} threads, {engine.isa}")
    print(f"prefill of {context}: {context / (perf_counter() - begin):.0f} tokens/s")
    print(f"states {engine.state_bytes / 1e6:.1f} MB, a row {engine.row_bytes / 1e3:.0f} kB")
    draft = tokens[context:]
    base = Session(engine, session.cache.fork(context))

    def plain(times: int = 1) -> float:
        """A step after one of which everything stood."""
        each = Session(engine, base.cache.fork(context))
        each.forward(draft[:1])
        return seconds(lambda: [each.forward(draft[:1]) for _ in range(times)]) / times

    def accepted(k: int) -> float:
        each = Session(engine, base.cache.fork(context))
        each.forward(draft[:1])
        return seconds(lambda: each.forward(draft[:k]))

    def after_rejection(k: int) -> float:
        """A plain step that first runs k // 2 rows again."""
        each = Session(engine, base.cache.fork(context))
        each.forward(draft[:k])
        each.truncate(context + max(1, k // 2))
        return seconds(lambda: each.forward(draft[:1]))

    steps, verified, again = [], {k: [] for k in ROWS}, {k: [] for k in ROWS}
    for _ in range(TURNS):
        step = plain(3)
        steps.append(step)
        for k in ROWS:
            verified[k].append(accepted(k) / step)
            again[k].append(after_rejection(k) / step)
    print(
        f"plain step {1e3 * median(steps):.2f} ms ({1e3 * min(steps):.2f}-{1e3 * max(steps):.2f})"
    )
    for k in ROWS:
        print(
            f"{k:2} rows {shown(verified[k])} plain steps; "
            f"a step that runs {max(1, k // 2)} rows again {shown(again[k])}"
        )
    llama(path, tokens, context, threads or engine.threads)


def shown(ratios: list[float]) -> str:
    return f"{median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


def llama(path: Path, tokens: list[int], context: int, threads: int) -> None:
    try:
        import llama_cpp
    except ImportError:
        return
    model = llama_cpp.llama_model_load_from_file(
        str(path).encode(), llama_cpp.llama_model_default_params()
    )
    params = llama_cpp.llama_context_default_params()
    params.n_ctx, params.n_threads, params.n_threads_batch = context + 128, threads, threads
    made = llama_cpp.llama_init_from_model(model, params)

    def decode(ids: list[int]) -> None:
        array = (llama_cpp.llama_token * len(ids))(*ids)
        llama_cpp.llama_decode(made, llama_cpp.llama_batch_get_one(array, len(ids)))

    decode(tokens[:context])
    times = [seconds(lambda at=at: decode([tokens[at]])) for at in range(context, context + 40)]
    print(
        f"llama.cpp: plain step {1e3 * median(times):.2f} ms ({1e3 * min(times):.2f}-"
        f"{1e3 * max(times):.2f})"
    )


if __name__ == "__main__":
    main()
