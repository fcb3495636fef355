"""Made-up records in the shapes of the public data files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

QUESTION = {"question_id": 1, "category": "writing", "turns": ["Say a.", "Say b."]}
EDIT = {"task_id": "E/0", "instruction": "Rename x. ", "input": "x = 1", "output": "y = 1"}
COMPLETION = {"task_id": "H/0", "prompt": "def f():\n", "canonical_solution": "    return 1\n"}
MATHS = {"question": "1 + 1?", "answer": "#### 2"}
JSON_ANSWER = {
    "title": "T",
    "context": "C.",
    "question": "Q?",
    "answerable": False,
    "answer": "No.",
}
CALL = {
    "id": "multiple_0",
    "question": [[{"role": "user", "content": "Add 1 and 2."}]],
    "function": [{"name": "add"}],
}
CALL_ANSWER = {"id": "multiple_0", "ground_truth": [{"add": {"a": [1], "b": [2, "2"], "c": [""]}}]}
REACT = {"Question: Who?": [{"thought": "Look.", "action": "Search[x]", "observation": "X."}]}
TRAJECTORY = {
    "history": [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "U"},
        {"role": "assistant", "content": "A"},
        {"role": "tool", "content": "O"},
        {"role": "assistant", "content": ""},
    ]
}


def write_lines(path: Path, *records: Any) -> Path:
    path.write_text("\n".join(json.dumps(record) for record in records) + "\n")
    return path
