"""Time steps of the native engine over caches of both precisions, on one model file.

    python benchmarks/kv_cache.py MODEL

Forwards of 1 to 16 rows at several context lengths. The two caches take turns forward by forward,
so that a drifting machine hits them alike; ratios are taken between neighbours, and given as median
and quartiles. The last line of stdout is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from maglio.engine.native import NativeEngine
from maglio.engine.native.engine import KV_CACHES
from maglio.engine.session import Session
from maglio.gguf import ModelFile

ROWS = (1, 4, 8, 16)
_TOKEN_STEP = 7919  # a prime, to spread token ids over the vocabulary


def seconds(session: Session, tokens: Sequence[int]) -> float:
    """Seconds of one forward, which is then forgotten."""
    before = session.length
    start = time.perf_counter()
    session.forward(tokens)
    elapsed = time.perf_counter() - start
    session.truncate(before)
    return elapsed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--contexts", type=int, nargs="+", default=[300, 2000, 8000])
    parser.add_argument("--times", type=int, default=21, help="forwards of each kind")
    args = parser.parse_args()
    n_ctx = max(args.contexts) + max(ROWS)
    file = ModelFile(args.model)
    engines = {
        kind: NativeEngine(file, n_ctx=n_ctx, threads=args.threads, kv_cache=kind)
        for kind in KV_CACHES
    }
    sessions = {kind: Session(engine) for kind, engine in engines.items()}
    n_vocab = file_vocabulary = engines["f16"].n_vocab
    tokens = [i * _TOKEN_STEP % file_vocabulary for i in range(n_ctx)]
    cases = []
    print(f"{args.model.name}: {engines['f16'].isa}, {args.threads} threads")
    print(f"{'':16}{'f16 ms':>10}{'q8_0 ms':>10}{'q8_0 / f16':>24}")
    for context in sorted({min(c, engines["f16"].n_ctx - max(ROWS)) for c in args.contexts}):
        for session in sessions.values():
            session.prefill(tokens[session.length : context])
        for rows in ROWS:
            taken: dict[str, list[float]] = {kind: [] for kind in KV_CACHES}
            for _ in range(args.times + 1):  # the first one warms up
                for kind, session in sessions.items():
                    taken[kind].append(seconds(session, tokens[:rows]))
            ratios = [b / a for a, b in zip(taken["f16"][1:], taken["q8_0"][1:], strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            ms = {kind: statistics.median(taken[kind][1:]) * 1e3 for kind in KV_CACHES}
            print(
                f"{rows:2} rows @ {context:<5}  {ms['f16']:10.2f}{ms['q8_0']:10.2f}"
                f"{middle:10.3f} ({low:.3f}-{high:.3f})",
                flush=True,
            )
            cases.append(
                {"context": context, "rows": rows}
                | {kind: round(value, 3) for kind, value in ms.items()}
                | {"ratio": [round(x, 3) for x in (low, middle, high)]}
            )
    print(json.dumps({"model": args.model.name, "isa": engines["f16"].isa, "cases": cases}))


if __name__ == "__main__":
    main()
