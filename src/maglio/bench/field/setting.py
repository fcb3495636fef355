"""What was measured on what, in one paragraph: the head of every report.

Boundary: a summary to text.
"""

from __future__ import annotations

from maglio.bench.field.summary import Summary
from maglio.bench.field.words import count, figure


def setting(summary: Summary) -> str:
    """The model, the machine, the date and the size of the benchmark."""
    header = summary.header
    model, machine = header.model, header.machine
    speed = machine.memory_gb_per_s
    memory = "" if speed is None else f", {figure(speed)} GB/s of memory"
    said = (
        f"Model {model.name}, {model.bytes / 1e6:,.0f} MB, SHA-256 {model.digest[:16]}. Machine: "
        f"{machine.cpu}, {count(machine.cores, 'core')}, {machine.isa}{memory}; "
        f"{count(header.threads, 'thread')}. Begun {header.started}"
    )
    if not header.tasks:
        return f"{said}."
    return f"{said}; {count(header.rounds, 'round')}, at most {header.max_tokens} tokens a run."
