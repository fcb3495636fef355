"""Counts and times of the server, in Prometheus' format.

Boundary: what is counted and under which name; who counts is :mod:`maglio.server.task.running`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from maglio.decode import GenerationStats
from maglio.server.telemetry.record import Record

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60, 120, 300)
_SHORT = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 2, 5)


class Metrics:
    """The metrics of one server, in a registry of their own.

    Args:
        gauges: what is asked for when the metrics are read: a name, what it is, and its value.
    """

    def __init__(self, gauges: Mapping[str, tuple[str, Callable[[], float]]] | None = None) -> None:
        registry = self._registry = CollectorRegistry(auto_describe=True)
        self._requests = Counter(
            "maglio_requests", "HTTP requests.", ["endpoint", "status"], registry=registry
        )
        self._prompt = Counter("maglio_prompt_tokens", "Tokens of prompts.", registry=registry)
        self._cached = Counter(
            "maglio_cached_tokens",
            "Tokens of prompts that were computed for an earlier request.",
            registry=registry,
        )
        self._hits = Counter(
            "maglio_cache_hits",
            "Generations that found a part of their prompt computed.",
            registry=registry,
        )
        self._generated = Counter("maglio_generated_tokens", "Tokens generated.", registry=registry)
        self._ended = Counter(
            "maglio_generations", "Generations that ended.", ["reason"], registry=registry
        )
        self._first = Histogram(
            "maglio_time_to_first_token_seconds",
            "From the arrival of a request to its first token.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._between = Histogram(
            "maglio_inter_token_seconds",
            "Between tokens of a stream; those of one forward share its time.",
            buckets=_SHORT,
            registry=registry,
        )
        self._drafted = Counter(
            "maglio_draft_tokens", "Draft tokens verified.", ["source"], registry=registry
        )
        self._accepted = Counter(
            "maglio_draft_tokens_accepted", "Draft tokens accepted.", ["source"], registry=registry
        )
        self._trips = Counter(
            "maglio_gate_trips",
            "Times that a generation's cost gate switched drafting off.",
            registry=registry,
        )
        for name, (what, value) in (gauges or {}).items():
            Gauge(f"maglio_{name}", what, registry=registry).set_function(value)

    def request(self, record: Record) -> None:
        """A request was answered."""
        self._requests.labels(record.endpoint or "none", str(record.status)).inc()

    def began(self, prompt: int, cached: int) -> None:
        """A generation began."""
        self._prompt.inc(prompt)
        self._cached.inc(cached)
        if cached > 0:
            self._hits.inc()

    def first_token(self, seconds: float) -> None:
        """A request has its first token."""
        self._first.observe(seconds)

    def tokens(self, count: int, seconds: float) -> None:
        """A stream has got so many tokens more, so long after those before."""
        for _ in range(count):
            self._between.observe(seconds / count)

    def ended(self, reason: str, tokens: int, stats: GenerationStats | None = None) -> None:
        """A generation has ended: ``stop``, ``length``, ``cancelled`` or ``error``."""
        self._ended.labels(reason).inc()
        self._generated.inc(tokens)
        if stats is None:
            return
        self._trips.inc(stats.gate_trips)
        for name, counts in stats.sources.items():
            self._drafted.labels(name).inc(counts.drafted)
            self._accepted.labels(name).inc(counts.accepted)

    def text(self) -> bytes:
        """All of them."""
        return generate_latest(self._registry)
