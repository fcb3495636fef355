"""How many outputs on llama.cpp are those of plain decoding: with its defaults, and exactly.

    python benchmarks/llama_exactness.py --data FOLDER [--model FILE] [--prompts 100]

FOLDER holds `spec_bench_question.jsonl`. Each question is answered plainly, one at a time; then
with drafts, all of which are verified, those from the plain answer too; and then beside seven
others. That is done greedily and sampled with seeds, with llama.cpp's own settings and with those
that were found to be exact on this model. The last line of stdout is one JSON document; the status
is 1 if an answer differs with exact settings.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import maglio
from maglio.economics.cost import FLAT_COST

SETTINGS = {"default": "accept", "exact": "require"}


def prompts(model: maglio.Model, folder: Path, n: int) -> list[list[int]]:
    """First turns of Spec-Bench, of all its categories alike, as ids."""
    rows = [json.loads(line) for line in (folder / "spec_bench_question.jsonl").open()]
    texts = [row["turns"][0][:2000] for row in rows[:: max(1, len(rows) // n)][:n]]
    if model.chat_template is None:
        return [model.tokenizer.encode(text) for text in texts]
    template = model.chat_template
    return [template.encode(template.render([{"role": "user", "content": t}])) for t in texts]


def samplings(n: int, *, greedy: bool) -> list[maglio.SamplingParams]:
    """One for each prompt."""
    if greedy:
        return [maglio.SamplingParams() for _ in range(n)]
    return [maglio.SamplingParams(temperature=0.8, top_p=0.95, seed=seed) for seed in range(n)]


def one_at_a_time(
    model: maglio.Model,
    asked: Sequence[list[int]],
    sampling: Sequence[maglio.SamplingParams],
    max_tokens: int,
    *,
    drafts: bool,
) -> tuple[list[list[int]], float]:
    """The answers, and tokens per step."""
    every = maglio.Speculation(gate=False, cost=FLAT_COST)
    answers, steps = [], 0
    for number, (prompt, params) in enumerate(zip(asked, sampling, strict=True)):
        result = model.generate(
            prompt,
            max_tokens=max_tokens,
            sampling=params,
            speculation=every if drafts else False,
        )
        answers.append(list(result.tokens))
        steps += result.stats.steps
        print(f"\r{number + 1}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return answers, round(sum(map(len, answers)) / max(1, steps), 2)


def together(
    model: maglio.Model,
    asked: Sequence[list[int]],
    sampling: Sequence[maglio.SamplingParams],
    max_tokens: int,
) -> list[list[int]]:
    """The answers of eight at a time, with drafts as the gate wants them."""
    results = model.generate_many(
        list(asked), max_tokens=max_tokens, sampling=list(sampling), max_parallel=8
    )
    return [list(result.tokens) for result in results]


def measure(args: argparse.Namespace, name: str) -> dict[str, Any]:
    """How many answers are equal with some settings."""
    model = maglio.load(
        args.model,
        engine="llama.cpp",
        exact=SETTINGS[name],
        n_ctx=args.context,
        threads=args.threads,
        kv_cache=args.kv_cache,
        cache_tokens=args.context * 8,
    )
    asked = prompts(model, args.data, args.prompts)
    result: dict[str, Any] = {
        "settings": str(model.engine.settings),
        "exactness": model.engine.exactness,
        "prompts": len(asked),
    }
    for greedy in (True, False):
        sampling = samplings(len(asked), greedy=greedy)
        begin = time.perf_counter()
        plain, _ = one_at_a_time(model, asked, sampling, args.max_tokens, drafts=False)
        middle = time.perf_counter()
        drafted, per_step = one_at_a_time(model, asked, sampling, args.max_tokens, drafts=True)
        end = time.perf_counter()
        beside = together(model, asked, sampling, args.max_tokens)
        result["greedy" if greedy else "sampled"] = {
            "drafted_equal": sum(map(list.__eq__, drafted, plain)),
            "together_equal": sum(map(list.__eq__, beside, plain)),
            "tokens_per_step": per_step,
            "plain_seconds": round(middle - begin, 1),
            "drafted_seconds": round(end - middle, 1),
        }
    return result


def main() -> None:
    """Compare, print, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path, help="a GGUF file; the default model otherwise")
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--kv-cache", default="f16")
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    args = parser.parse_args()
    results = {}
    for name in args.settings:
        results[name] = found = measure(args, name)
        print(f"{name}: {found['settings']} ({found['exactness']})")
        for kind in ("greedy", "sampled"):
            counts = found[kind]
            print(
                f"  {kind}: drafted {counts['drafted_equal']} of {found['prompts']} equal, "
                f"together {counts['together_equal']} of {found['prompts']}, "
                f"{counts['tokens_per_step']} tokens per step",
                flush=True,
            )
    print(json.dumps(results))
    exact = results.get("exact")
    if exact is not None:
        counts = [exact[kind][key] for kind in ("greedy", "sampled") for key in _COUNTED]
        sys.exit(any(count != exact["prompts"] for count in counts))


_COUNTED = ("drafted_equal", "together_equal")


if __name__ == "__main__":
    main()
