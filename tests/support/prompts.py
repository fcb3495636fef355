"""A hundred prompts: of the public benchmark data where it is at hand, of our own elsewhere."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

_DATA = Path(os.environ.get("MAGLIO_DATA", Path(__file__).parents[3] / "shared" / "data"))
_TOPICS = (
    "a lighthouse keeper", "sorting a list of numbers", "why bread rises", "a railway timetable",
    "the water cycle", "a chess opening", "repairing a bicycle", "the migration of swallows",
    "a letter to the landlord", "prime numbers",
)  # fmt: skip
_TASKS = (
    "Write a short story about {}.",
    "Explain {} to a child, in three sentences.",
    "List ten facts about {}:\n1.",
    "def answer():\n    # Print a sentence about {}.\n    print(",
    "Question: what should one know about {}?\nAnswer:",
    "Translate into French: I have been reading about {} all day.",
    "{0}, {0}, {0}, {0}, {0}, {0}, {0},",
    '{{"topic": "{0}", "title": "{0}", "summary": "',
    "Meeting notes on {}\n\n- agreed: the plan\n- agreed: the budget\n- agreed:",
    "Once more about {0}. Once more about {0}. Once more about {0}. Once",
)


def hundred_prompts() -> list[str]:
    """Return 100 prompts of mixed kinds, each at most some hundred characters."""
    file = _DATA / "spec_bench_question.jsonl"
    if not file.is_file():
        return [task.format(topic) for task, topic in itertools.product(_TASKS, _TOPICS)]
    questions = [json.loads(line)["turns"][0] for line in file.read_text().splitlines()]
    step = len(questions) / 100
    return [questions[int(i * step)][:400] for i in range(100)]
