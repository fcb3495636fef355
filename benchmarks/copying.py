"""Tasks where a model copies what it is given: code edits with the original as a reference, and
passages to repeat. Plain and speculative decoding by turns, by acceptance.

Run it as ``python benchmarks/copying.py EditEval.jsonl --model model.gguf``. Prompts are questions
for a chat model, and texts to go on with for a base model (``--base``).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from statistics import median

import maglio
from maglio.bench.data.reader import read_dialogues
from maglio.bench.tasks import Task, TaskResult, asked, run_task
from maglio.decode import SourceCounts

PASSAGES = (
    "The mill stands where two streams meet. Its wheel is six metres high and turns a shaft of oak "
    "with four cams, and each cam lifts the hammer once in a turn and lets it fall.",
    "Every guest receives a key at the counter on arrival. The counter is open from seven in the "
    "morning to ten at night; who comes later rings the bell beside the green door and waits.",
    "Mix the flour with the salt, then rub in the butter until it looks like crumbs. Add cold "
    "water a spoon at a time, press the dough together, wrap it, and let it rest for an hour.",
    "The committee met on Tuesday, heard three reports and approved two of them. The third, on the "
    "repair of the north bridge, was sent back with a list of questions about its cost.",
)


def copies(*, base: bool) -> Iterator[Task]:
    """Passages to repeat word for word."""
    for passage in PASSAGES:
        if base:
            # Once is an accident, twice is a pattern: a base model goes on with it.
            yield Task(group="copy", text=f"{passage}\n\n{passage}\n\n", reference=passage)
        else:
            yield asked("copy", f"Repeat this text word for word.\n\n{passage}", reference=passage)


def edits(path: Path, limit: int, *, base: bool) -> Iterator[Task]:
    """Code edits of the EditEval file, the original given as a reference."""
    for dialogue in list(read_dialogues(path))[:limit]:
        question, code = dialogue.prompt[-1].text, dialogue.material
        if base:
            instruction = question.removesuffix(code).strip()
            text = f"# Before\n{code}\n\n# After: {instruction}\n"
            yield Task(group="edit", text=text, reference=code)
        else:
            yield Task(group="edit", messages=dialogue.prompt, reference=code)


def by_source(results: list[TaskResult]) -> dict[str, SourceCounts]:
    """Counts of all results by source."""
    total: dict[str, SourceCounts] = {}
    for result in results:
        for name, counts in result.stats.sources.items():
            before = total.get(name, SourceCounts(0, 0))
            total[name] = SourceCounts(
                before.drafted + counts.drafted, before.accepted + counts.accepted
            )
    return total


def show(results: list[TaskResult]) -> None:
    """Print what each group did, and those of its prompts that were mostly copied."""
    for group in dict.fromkeys(result.group for result in results):
        members = [result for result in results if result.group == group]
        copied = [result for result in members if result.stats.acceptance_rate >= 0.7]
        for name, chosen in ((group, members), (f"{group}, 70% accepted", copied)):
            if not chosen:
                print(f"{name}: no prompt")
                continue
            ratios = sorted(result.ratio.median for result in chosen)
            print(
                f"{name}: {len(chosen)} prompts, ratio {median(ratios):.2f} "
                f"({ratios[0]:.2f}-{ratios[-1]:.2f}), tokens per step "
                f"{median(result.stats.tokens_per_step for result in chosen):.2f}"
            )
        for name, counts in by_source(members).items():
            share = counts.accepted / counts.drafted if counts.drafted else 0.0
            print(f"    {name}: {counts.accepted} of {counts.drafted} accepted ({share:.0%})")


def main() -> None:
    """Measure, print, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("edits", type=Path, help="the EditEval file")
    parser.add_argument("--model", type=Path, help="GGUF file; the default model otherwise")
    parser.add_argument("--base", action="store_true", help="the model is no chat model")
    parser.add_argument("--limit", type=int, default=12, help="edits")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    model = maglio.load(given.model, n_ctx=4096)
    tasks = [*copies(base=given.base), *edits(given.edits, given.limit, base=given.base)]
    results = [
        run_task(
            model,
            task,
            max_tokens=given.max_tokens,
            rounds=given.rounds,
            speculation=maglio.Speculation(history=False),
        )
        for task in tasks
    ]
    if not all(result.equal for result in results):
        raise SystemExit("speculative output differed from plain output")
    show(results)
    figures = [
        {
            "group": result.group,
            "ratio": asdict(result.ratio),
            "acceptance_rate": result.stats.acceptance_rate,
            "tokens": result.stats.committed,
        }
        for result in results
    ]
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
