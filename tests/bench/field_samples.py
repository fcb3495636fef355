"""Made-up results of a field benchmark."""

from __future__ import annotations

from dataclasses import replace

from maglio.bench.field.line import (
    Contestant,
    FieldMachine,
    FieldModel,
    FieldRun,
    FieldTask,
    Header,
)

HEADER = Header(
    FieldModel("m.gguf", 5, "0a"),
    FieldMachine("a processor", 2, "avx2", 12.5),
    threads=2,
    n_ctx=512,
    max_tokens=4,
    rounds=1,
    started="2026-12-01T12:00:00+00:00",
    contestants=(
        Contestant("maglio-plain", "maglio", "plain", {}, "maglio 1", None),
        Contestant("maglio", "maglio", "speculative", {"history": False}, "maglio 1", None),
        Contestant("lost", "lost", "plain", {}, "", "pip install lost"),
    ),
    tasks=(FieldTask("repetition", "built in", 1, "It repeats."),),
)

_RUN = FieldRun(
    task="repetition",
    prompt="1",
    round=0,
    contestant="maglio",
    temperature=0.0,
    tokens=4,
    decode_s=0.5,
    first_token_s=0.25,
    steps=1,
    drafted=2,
    accepted=2,
    equal=True,
    digest="ab",
    error=None,
)


def run(**values) -> FieldRun:
    return replace(_RUN, **values)
