"""Lines of batches, and what can be compared of their results.

Boundary: documents and files; runs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
RESPONSES = "/v1/responses"
_OF_THE_MOMENT = {"id", "created", "created_at", "completed_at", "timings"}
_OF_THE_CACHE = {"prompt_tokens_details", "prompt_cache_hit_tokens", "input_tokens_details"}


def line(custom_id: str, body: object, url: str = CHAT) -> dict[str, Any]:
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body}


def chat(text: str, **fields: object) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 12, **fields}


def chats(count: int) -> list[dict[str, Any]]:
    """Requests whose answers are the same whenever they are asked for."""
    return [line(f"chat-{n}", chat(f"number {n}", seed=n)) for n in range(count)]


def write_lines(path: Path, lines: Iterable[object]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return path


def results_of(path: Path) -> dict[str, Any]:
    """Results by custom ids; each line is whole, and no two are of one request."""
    data = path.read_bytes()
    assert not data or data.endswith(b"\n")
    results = [json.loads(each) for each in data.splitlines()]
    found = {result["custom_id"]: result for result in results}
    assert len(found) == len(results)
    return found


def lasting(value: object) -> object:
    """A document without what is another one each time: names, times, and what was cached."""
    if isinstance(value, Mapping):
        left_out = _OF_THE_MOMENT | _OF_THE_CACHE
        return {name: lasting(each) for name, each in value.items() if name not in left_out}
    return [lasting(each) for each in value] if isinstance(value, list) else value


def answers_of(path: Path) -> dict[str, object]:
    """The status and what lasts of the body of each result, by custom ids."""
    return {
        custom_id: (
            result["id"],
            result["response"]["status_code"],
            lasting(result["response"]["body"]),
        )
        for custom_id, result in results_of(path).items()
    }
