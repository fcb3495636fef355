"""vLLM's ways to draft beside one another: tokens per second and acceptance, many requests at once.

    LD_PRELOAD=build/vllm/lib/libiomp5.so build/vllm/bin/python benchmarks/vllm_methods.py \\
        CHECKPOINT --data FOLDER [--requests 8] [--rounds 3] [--max-tokens 128]

CHECKPOINT is a folder; ``scripts/gguf_to_checkpoint.py - FOLDER`` writes one of SmolLM2. Engines
are alive at once and take turns, a kind of task after the other. Each round has prompts of its own,
so what a method remembers of earlier requests is what it would remember in use. ``none`` is vLLM
without drafts. Requests are greedy; how many got the tokens of ``none`` is
printed too, since rounding may decide between two tokens that are about equally probable.

``suffix`` needs the package arctic-inference in the same environment; without it, it is left out.
If its build does not find Python, write ``set(Python_EXECUTABLE …)`` and ``set(Python_INCLUDE_DIR
…)`` into a file that the variable CMAKE_TOOLCHAIN_FILE names.

The last line of stdout is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from maglio.bench.data.reader import read_dialogues
from support.vllm_engine import Engine, ours

METHODS: dict[str, Callable[[int], dict[str, Any] | None]] = {
    "none": lambda n: None,
    "ngram": lambda n: {
        "method": "ngram",
        "num_speculative_tokens": n,
        "prompt_lookup_min": 2,
        "prompt_lookup_max": 4,
    },
    "suffix": lambda n: {"method": "suffix", "num_speculative_tokens": n},
    "maglio": ours,
}
SUBJECTS = ("hammer", "wheel", "river", "oak", "lantern", "bridge", "harbour", "orchard")


@dataclass(frozen=True, slots=True)
class Result:
    """What a method did with one round of a kind of task."""

    task: str
    method: str
    tokens: int
    seconds: float
    drafted: int
    accepted: int
    equal: int
    requests: int


def tasks(folder: Path, requests: int, rounds: int) -> dict[str, list[str]]:
    """Questions of each kind, enough for all rounds."""
    n = requests * rounds
    texts = [
        dialogue.prompt[-1].text
        for dialogue in read_dialogues(folder / "spec_bench_question.jsonl")
        if dialogue.category == "summarization"
    ]
    edits = (d.prompt[-1].text for d in read_dialogues(folder / "EditEval.jsonl"))
    free = (d.prompt[-1].text for d in read_dialogues(folder / "mt_bench_question.jsonl"))
    repeats = [
        f"Write this line {10 + i} times: The {SUBJECTS[i % 8]} turns in the night, day {i}."
        for i in range(n)
    ]
    copies = [f"Repeat this text word for word.\n\n{text[60:560]}" for text in texts[:n]]
    short_edits = [text for text in edits if len(text) < 1200]
    return {
        "repetition": repeats,
        "copy": copies,
        "edit": short_edits[:n],
        "free form": [*islice((text for text in free if len(text) < 600), n)],
    }


def timed(engine: Engine, prompts: Sequence[Sequence[int]], n: int) -> tuple[Any, float, Any]:
    """The tokens, the seconds, and what was drafted."""
    before = engine.drafts
    begin = time.perf_counter()
    said = engine.generate(prompts, n)
    return said, time.perf_counter() - begin, engine.drafts.since(before)


def measure(
    engines: dict[str, Engine], prompts: dict[str, list[list[int]]], *, requests: int, n: int
) -> list[Result]:
    """Run all rounds."""
    results: list[Result] = []
    rounds = min(len(kind) for kind in prompts.values()) // requests
    for number in range(rounds):
        for task, kind in prompts.items():
            batch = kind[number * requests : (number + 1) * requests]
            plain: list[list[int]] | None = None
            order = [*engines.items()]
            for method, engine in order[:1] + order[1:][:: 1 if number % 2 else -1]:
                said, seconds, drafts = timed(engine, batch, n)
                plain = said if plain is None else plain
                equal = sum(a == b for a, b in zip(said, plain, strict=True))
                tokens = sum(map(len, said))
                results.append(Result(task, method, tokens, seconds, *drafts, equal, len(batch)))
                print(results[-1], file=sys.stderr, flush=True)
    return results


def show(results: list[Result]) -> None:
    """Print a line for each kind of task and method: medians over the rounds."""
    print(f"{'task':12} {'method':8} {'tok/s':>7} {'to none':>8} {'accepted':>9} {'equal':>7}")
    for task in dict.fromkeys(result.task for result in results):
        rows = [result for result in results if result.task == task]
        plain = [r.tokens / r.seconds for r in rows if r.method == "none"]
        for method in dict.fromkeys(result.method for result in rows):
            mine = [result for result in rows if result.method == method]
            speeds = [r.tokens / r.seconds for r in mine]
            ratio = median(a / b for a, b in zip(speeds, plain, strict=True)) if plain else 0.0
            drafted = sum(r.drafted for r in mine)
            accepted = sum(r.accepted for r in mine) / drafted if drafted else 0.0
            equal = f"{sum(r.equal for r in mine)}/{sum(r.requests for r in mine)}"
            print(
                f"{task:12} {method:8} {median(speeds):7.1f} {ratio:8.2f} {accepted:9.0%} "
                f"{equal:>7}"
            )


def main() -> None:
    """Measure, print, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=[*METHODS])
    parser.add_argument("--requests", type=int, default=8, help="at a time")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--drafts", type=int, default=8, help="most draft tokens of a request")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--compile", action="store_true", help="let vLLM compile the model")
    given = parser.parse_args()
    if "suffix" in given.methods and find_spec("arctic_inference") is None:
        given.methods.remove("suffix")
        print("suffix is left out: arctic-inference is not installed", file=sys.stderr)
    questions = tasks(given.data, given.requests, given.rounds)
    engines = {
        method: Engine(
            given.checkpoint,
            METHODS[method](given.drafts),
            context=1024,
            requests=given.requests,
            dtype=given.dtype,
            enforce_eager=not given.compile,
        )
        for method in given.methods
    }
    tokenizer = next(iter(engines.values())).llm.get_tokenizer()

    def encoded(text: str) -> list[int]:
        message = [{"role": "user", "content": text}]
        ids: list[int] = tokenizer.apply_chat_template(
            message, add_generation_prompt=True, return_dict=False
        )
        return ids

    prompts = {task: [encoded(text) for text in texts] for task, texts in questions.items()}
    for engine in engines.values():  # whatever is made on first use is made now
        engine.generate([prompts["free form"][0][:8]] * given.requests, 24)
    results = measure(engines, prompts, requests=given.requests, n=given.max_tokens)
    for engine in engines.values():
        engine.close()
    show(results)
    print(json.dumps([asdict(result) for result in results]))


if __name__ == "__main__":
    main()
