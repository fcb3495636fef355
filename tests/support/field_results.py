"""Results of a field benchmark made by hand: contestants, tasks, and runs of known speeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from maglio.bench.field.line import (
    Contestant,
    FieldMachine,
    FieldModel,
    FieldRun,
    FieldTask,
    GrowthPoint,
    Header,
    Line,
)
from maglio.bench.field.results import as_line

CONTESTANTS = (
    Contestant("maglio-plain", "maglio", "plain", {"engine": "native"}, "maglio 0.1.0", None),
    Contestant("maglio", "maglio", "speculative", {"history": False}, "maglio 0.1.0", None),
    Contestant("theirs-plain", "theirs", "plain", {}, "theirs 2.0", None),
    Contestant("theirs-ngram", "theirs", "n-gram", {"size_n": 12}, "theirs 2.0", None),
    Contestant("gone", "gone", "plain", {}, "", "gone: not installed; pip install gone"),
)
TASKS = (
    FieldTask("code edit", "built in", 2, "Most of the code comes again."),
    FieldTask("free form", "built in", 2, "Hardly anything comes again."),
)


def header(**changes: Any) -> Header:
    fields: dict[str, Any] = {
        "model": FieldModel("tiny.gguf", 98_000_000, "0123456789abcdef" * 4),
        "machine": FieldMachine("A processor", 2, "avx2", 18.04),
        "threads": 2,
        "n_ctx": 2048,
        "max_tokens": 101,
        "rounds": 2,
        "started": "2026-12-01T12:00:00+00:00",
        "contestants": CONTESTANTS,
        "tasks": TASKS,
    }
    return Header(**{**fields, **changes})


def run(contestant: str, rate: float, **changes: Any) -> FieldRun:
    """A run of 101 tokens, 100 of which came at ``rate`` per second."""
    fields: dict[str, Any] = {
        "task": "code edit",
        "prompt": "a",
        "round": 0,
        "contestant": contestant,
        "temperature": 0.0,
        "tokens": 101,
        "first_token_s": 0.05,
        "steps": None,
        "drafted": None,
        "accepted": None,
        "equal": None,
        "digest": "00112233",
        "error": None,
    }
    fields.update(changes)
    return FieldRun(**{"decode_s": (fields["tokens"] - 1) / rate, **fields})


def failed(contestant: str, error: str, **changes: Any) -> FieldRun:
    nothing = {"tokens": 0, "decode_s": 0.0, "first_token_s": 0.0, "digest": "", "error": error}
    return run(contestant, 1.0, **nothing, **changes)


def point(curve: str, x: float, value: float, **changes: Any) -> GrowthPoint:
    fields: dict[str, Any] = {
        "curve": curve,
        "x": x,
        "x_name": "tokens of context",
        "contestant": None,
        "series": "",
        "value": value,
        "low": 0.9 * value,
        "high": 1.1 * value,
        "unit": "ms",
        "expected": "O(n)",
    }
    return GrowthPoint(**{**fields, **changes})


def field_runs() -> list[FieldRun]:
    """A win, a loss, something sampled, and a peer that fails once and whose outputs differ."""
    runs = []
    for number in (0, 1):
        for prompt, copied in (("a", 3.0), ("b", 1.5)):
            for temperature in (0.0, 0.7):
                place: dict[str, Any] = {
                    "prompt": prompt,
                    "round": number,
                    "temperature": temperature,
                }
                gain = copied if temperature == 0.0 else 1.0 + (copied - 1.0) / 4
                drafts: dict[str, Any] = {"steps": 40, "drafted": 80, "accepted": 60, "equal": True}
                runs += [
                    run("maglio-plain", 100.0, **place),
                    run("maglio", 100.0 * gain, **drafts, **place),
                    run("theirs-plain", 50.0, **place),
                    run("theirs-ngram", 50.0 * gain**0.5, equal=prompt == "a", **place),
                ]
            free: dict[str, Any] = {"task": "free form", "prompt": prompt, "round": number}
            runs += [
                run("maglio-plain", 100.0, **free),
                run("maglio", 98.0, equal=True, steps=100, drafted=10, accepted=1, **free),
                run("theirs-plain", 120.0, **free),
            ]
        runs.append(failed("theirs-ngram", "it hung", task="free form", round=number))
    return runs


def growth() -> list[GrowthPoint]:
    flat = {"series": "kept", "expected": "O(1)"}
    steep = {"series": "anew", "expected": "O(n)"}
    names = {"x_name": "tokens of the conversation"}
    return [
        point("first token", x, value, **series, **names)
        for x, kept, anew in ((256, 50.0, 200.0), (1024, 52.0, 800.0), (4096, 60.0, 4000.0))
        for series, value in ((flat, kept), (steep, anew))
    ] + [
        point("memory of a reference", x, x / 2e4, unit="MB", x_name="tokens of the reference")
        for x in (1_000, 1_000_000, 10_000_000)
    ]


def write_results(path: Path, *lines: Line) -> Path:
    path.write_bytes(b"".join(map(as_line, lines)))
    return path
