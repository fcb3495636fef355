"""Time the native engine over caches of both precisions, on one model file.

    python benchmarks/kv_cache.py MODEL

Forwards of 1 to 16 rows at several context lengths. The two caches take turns forward by forward,
so that a drifting machine hits them alike; ratios are taken between neighbours, and given as median
and quartiles. The last line of stdout is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maglio.engine.native import NativeEngine
from maglio.engine.session import Session
from maglio.gguf import ModelFile

ROWS = (1, 4, 8, 16)
_TOKEN_STEP = 7919  # a prime, to spread token ids over the vocabulary


def milliseconds(session: Session, tokens: Sequence[int]) -> float:
    """Time one forward, and forget it."""
    before = session.length
    start = time.perf_counter()
    session.forward(tokens)
    elapsed = time.perf_counter() - start
    session.truncate(before)
    return 1e3 * elapsed


def measure(half: Session, coded: Session, tokens: Sequence[int], times: int) -> dict[str, Any]:
    """Time both in turns; the first turn warms up."""
    turns = [(milliseconds(half, tokens), milliseconds(coded, tokens)) for _ in range(times + 1)]
    pairs = turns[1:]
    return {
        "context": half.length,
        "rows": len(tokens),
        "f16_ms": round(statistics.median(f16 for f16, _ in pairs), 3),
        "q8_0_ms": round(statistics.median(q8_0 for _, q8_0 in pairs), 3),
        "ratio": [
            round(r, 3) for r in statistics.quantiles((q8_0 / f16 for f16, q8_0 in pairs), n=4)
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--contexts", type=int, nargs="+", default=[300, 2000, 8000])
    parser.add_argument("--times", type=int, default=21, help="forwards of each kind")
    args = parser.parse_args()
    file, n_ctx = ModelFile(args.model), max(args.contexts) + max(ROWS)
    half, coded = (
        NativeEngine(file, n_ctx=n_ctx, threads=args.threads, kv_cache=name)
        for name in ("f16", "q8_0")
    )
    tokens = [i * _TOKEN_STEP % half.n_vocab for i in range(half.n_ctx)]
    sessions = Session(half), Session(coded)
    print(f"{args.model.name}: {half.isa}, {half.threads} threads")
    print(f"{'':16}{'f16 ms':>10}{'q8_0 ms':>10}{'q8_0 / f16':>24}")
    cases = []
    # Contexts beyond the model's own are cut to fit.
    for context in sorted({min(c, half.n_ctx - max(ROWS)) for c in args.contexts}):
        for session in sessions:
            session.prefill(tokens[session.length : context])
        for rows in ROWS:
            case = measure(*sessions, tokens[:rows], args.times)
            low, middle, high = case["ratio"]
            print(
                f"{rows:2} rows @ {context:<6} {case['f16_ms']:10.2f}{case['q8_0_ms']:10.2f}"
                f"{middle:10.3f} ({low:.3f}-{high:.3f})",
                flush=True,
            )
            cases.append(case)
    print(json.dumps({"model": args.model.name, "isa": half.isa, "cases": cases}))


if __name__ == "__main__":
    main()
