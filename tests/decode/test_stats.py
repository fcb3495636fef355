"""Statistics of several generations together."""

from __future__ import annotations

from dataclasses import fields

from maglio.decode import SourceCounts
from maglio.decode.stats import GenerationStats, total


def generation(n: int) -> GenerationStats:
    counts = {
        field.name: n
        for field in fields(GenerationStats)
        if field.name not in ("sources", "source_error", "drafted", "accepted")
    }
    sources = {"conversation": SourceCounts(3 * n, n, muted=n > 1)}
    return GenerationStats(**counts, drafted=3 * n, accepted=n, sources=sources)


def test_a_total_adds_up_every_count():
    both = total([generation(1), generation(2)])
    three = generation(3)
    for field in fields(GenerationStats):
        if field.name not in ("sources", "source_error", "overhead_s"):
            assert getattr(both, field.name) == getattr(three, field.name), field.name
    assert both.sources == {"conversation": SourceCounts(9, 3, muted=True)}
