"""What the drafting indexes cost: memory of the process, speed, and the time to open a file.

Run it as ``python benchmarks/index.py``. It prints a table, and one JSON object as the last line.
The stream is Zipf-distributed over 150,000 ids, half of it copied from earlier in the stream, as
conversations do. Every figure is taken in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from maglio._core import FrozenAutomaton, SuffixAutomaton
from maglio.bench.growth.drafting import resident_bytes
from maglio.bench.growth.synthetic import N_VOCAB, make_stream
from maglio.bench.peers.arctic import find_suffix_tree
from maglio.draft.cascade import Cascade
from maglio.draft.record import RecordPolicy
from maglio.draft.reference import save_index
from maglio.draft.source import Step


def best_seconds(work: Callable[[], object], repeats: int) -> float:
    """Fastest of several runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def live(n: int) -> dict[str, float]:
    """Extend a live index in one go."""
    tokens = make_stream(n)
    before = resident_bytes()
    index = SuffixAutomaton(token_cap=n + 4)
    index.extend(tokens)
    resident = resident_bytes() - before
    seconds = best_seconds(lambda: SuffixAutomaton(token_cap=n + 4).extend(tokens), 3)
    return {"live_bytes_per_token": resident / n, "extend_tokens_per_s": n / seconds}


def frozen(n: int) -> dict[str, float]:
    """Build a frozen index, and save and open it."""
    tokens = make_stream(n)
    before = resident_bytes()
    start = time.perf_counter()
    index = FrozenAutomaton(tokens)
    seconds = time.perf_counter() - start
    figures = {
        "frozen_bytes_per_token": (resident_bytes() - before) / n,
        "frozen_build_tokens_per_s": n / seconds,
    }
    cursor = index.cursor()
    start = time.perf_counter()
    cursor.advance_many(tokens[::-1].copy())
    figures["cursor_tokens_per_s"] = n / (time.perf_counter() - start)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reference.idx"
        save_index(index, path, fingerprint="benchmark")
        figures["file_bytes_per_token"] = path.stat().st_size / n
        figures["open_ms"] = 1e3 * best_seconds(lambda: FrozenAutomaton.open(path), 5)
    return figures


def suggestions(n: int) -> dict[str, float]:
    """Time suggestions of 16 tokens, and single-token appends, over an index of ``n`` tokens.

    Medians of single calls from Python. The native ones are bare calls of the extension, the
    others those of a draft source that has this index alone.
    """
    index = SuffixAutomaton(token_cap=2 * n)
    source = Cascade(N_VOCAB, RecordPolicy(), token_cap=2 * n)
    stream = make_stream(n + 20_000)
    index.extend(stream[:n])
    source.observe(Step(stream[:n].tolist()))
    tail = stream[n:].tolist()
    native, weighed, python, observe = [], [], [], []
    clock = time.perf_counter
    for token in tail:
        start = clock()
        source.observe(Step((token,), (token,)))
        observe.append(clock() - start)
        index.append(token)
        if index.match_length < 7:
            continue
        start = clock()
        index.draft(16)
        middle = clock()
        index.weighed_draft(16)
        weighed.append(clock() - middle)
        start_python = clock()
        source.propose((), 16)
        python.append(clock() - start_python)
        native.append(middle - start)
    return {
        "suggest_native_us": 1e6 * float(np.median(native)),
        "suggest_weighed_us": 1e6 * float(np.median(weighed)),
        "suggest_python_us": 1e6 * float(np.median(python)),
        "observe_one_python_us": 1e6 * float(np.median(observe)),
    }


def arctic(n: int) -> dict[str, float]:
    """The same of ArcticInference's suffix tree, if it is installed, on a tenth of the stream."""
    make_tree = find_suffix_tree()
    if make_tree is None:
        return {}
    n //= 10
    stream = make_stream(n + 2_000)
    before = resident_bytes()
    tree = make_tree(64)
    start = time.perf_counter()
    tree.extend(0, stream[:n].tolist())
    seconds = time.perf_counter() - start
    resident = resident_bytes() - before
    speculate = []
    context = stream[n - 64 : n].tolist()
    for token in stream[n:].tolist():
        tree.extend(0, [token])
        context = [*context[1:], token]
        start = time.perf_counter()
        tree.speculate(context, 16, 1.0, 0.0, 0.1, False)
        speculate.append(time.perf_counter() - start)
    return {
        "arctic_bytes_per_token": resident / n,
        "arctic_extend_tokens_per_s": n / seconds,
        "arctic_suggest_us": 1e6 * float(np.median(speculate)),
    }


def main() -> None:
    """Measure, print the table, then the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=1_000_000, help="stream length")
    options = parser.parse_args()
    figures: dict[str, float] = {}
    for measure in (live, frozen, suggestions, arctic):
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
            figures |= pool.submit(measure, options.tokens).result()
    for name, value in figures.items():
        print(f"{name:28} {value:14,.2f}")
    print(json.dumps({"tokens": options.tokens, **figures}))


if __name__ == "__main__":
    main()
