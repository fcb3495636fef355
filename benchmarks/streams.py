"""Tokens per second of many prompts: one after the other and together, with drafts and without.

    python benchmarks/streams.py [MODEL] [--streams 8 16] [--max-tokens 128]

The four ways are interleaved and repeated; ratios are taken within a repetition. Every way must
give the same tokens. Drafts come from the stream itself: histories are off, since they would make
the second way to run a prompt faster than the first. The last line of stdout is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import maglio

TOPICS = (
    "the planets of the solar system", "the months of the year", "kitchen tools", "prime numbers",
    "river fish", "the parts of a bicycle", "musical instruments", "chess pieces",
    "kinds of bread", "garden birds", "the bones of the hand", "sailing ships",
    "winter sports", "the rooms of a house", "trees of the forest", "units of measurement",
)  # fmt: skip
PROMPT = "A list of {}, one sentence each:\n1."
ALONE = maglio.Speculation(history=False)


def timed(run: Callable[[], list[maglio.Generation]]) -> tuple[float, list[tuple[int, ...]]]:
    """Tokens per second, and the tokens."""
    start = time.perf_counter()
    done = run()
    seconds = time.perf_counter() - start
    return sum(len(each.tokens) for each in done) / seconds, [each.tokens for each in done]


def ways(
    model: maglio.Model, prompts: list[str], max_tokens: int
) -> dict[str, Callable[[], list[maglio.Generation]]]:
    endless = maglio.SamplingParams(
        logit_bias={token: float("-inf") for token in model.tokenizer.eog_ids}
    )

    def one_by_one(speculation: bool | maglio.Speculation) -> list[maglio.Generation]:
        return [
            model.generate(p, max_tokens=max_tokens, sampling=endless, speculation=speculation)
            for p in prompts
        ]

    def together(speculation: bool | maglio.Speculation) -> list[maglio.Generation]:
        return model.generate_many(
            prompts,
            max_parallel=len(prompts),
            max_tokens=max_tokens,
            sampling=endless,
            speculation=speculation,
        )

    return {
        "one by one": lambda: one_by_one(False),
        "together": lambda: together(False),
        "one by one, drafts": lambda: one_by_one(ALONE),
        "together, drafts": lambda: together(ALONE),
    }


def measure(
    model: maglio.Model, n: int, max_tokens: int, repeats: int
) -> dict[str, dict[str, float]]:
    runs = ways(model, [PROMPT.format(topic) for topic in TOPICS[:n]], max_tokens)
    rates: dict[str, list[float]] = {name: [] for name in runs}
    expected = None
    for repeat in range(repeats + 1):
        for name, run in runs.items():
            rate, tokens = timed(run)
            expected = expected or tokens
            if tokens != expected:
                raise SystemExit(f"{name}: the tokens differ; please report this")
            if repeat > 0:  # the first round warms up
                rates[name].append(rate)
        print(f"\r{n} streams, round {repeat} of {repeats}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    base = rates["one by one"]
    out = {}
    for name, values in rates.items():
        ratios = [value / first for value, first in zip(values, base, strict=True)]
        out[name] = {
            "tokens_per_s": round(statistics.median(values), 1),
            "ratio": round(statistics.median(ratios), 2),
            "low": round(min(ratios), 2),
            "high": round(max(ratios), 2),
        }
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--streams", type=int, nargs="+", default=[8, 16])
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    model = maglio.load(args.model, threads=args.threads)
    results = {}
    for n in args.streams:
        if not 1 <= n <= len(TOPICS):
            parser.error(f"--streams {n}: it can be 1 to {len(TOPICS)}")
        results[str(n)] = measure(model, n, args.max_tokens, args.repeats)
        print(f"{n} streams of {args.max_tokens} tokens, {model.name}")
        for name, row in results[str(n)].items():
            print(
                f"  {name:20} {row['tokens_per_s']:8.1f} tok/s {row['ratio']:6.2f} "
                f"({row['low']:.2f}-{row['high']:.2f})"
            )
    print(json.dumps({"model": model.name, "streams": results}))


if __name__ == "__main__":
    main()
