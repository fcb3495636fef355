"""What one generation did and how long it took. Counts and clocks only; decides nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter

from maglio.draft.source import Step
from maglio.economics.gate import GateEvents


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """How one draft source did.

    Attributes:
        drafted: draft tokens verified.
        accepted: draft tokens accepted.
        muted: whether it is muted now.
    """

    drafted: int
    accepted: int
    muted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationStats:
    """One generation, finished or not.

    Attributes:
        steps: forwards that gave tokens; the prefill, whose last row gives the first one, is one.
        verify_steps: those of them that verified a draft.
        drafted: draft tokens verified. Those behind the end of a generation are not counted:
            they were never judged.
        accepted: draft tokens that were what the model sampled.
        committed: tokens generated.
        prompt_tokens: tokens prefilled: the prompt, and what the cache lacked of the stream
            before it.
        prefill_s: seconds in the forwards of the prefill.
        decode_s: seconds in everything after it, not counting the caller's time between tokens.
            Among many streams: seconds in the forwards that it shared with others.
        overhead_s: the part of ``decode_s`` that was not spent in forwards.
        sources: what each draft source, by name, contributed to ``drafted`` and ``accepted``.
        gate_trips: times that the cost gate switched drafting off,
        gate_probes: times that it tried again,
        gate_disabled_steps: plain steps taken in between.
        recomputed: rows that were computed again alone, because the choice from them was closer
            than rounding can decide (``exact="guard"``).
        source_error: why drafting stopped, when the source raised; ``None`` otherwise.
    """

    steps: int
    verify_steps: int
    drafted: int
    accepted: int
    committed: int
    prompt_tokens: int
    prefill_s: float
    decode_s: float
    overhead_s: float
    sources: Mapping[str, SourceCounts]
    gate_trips: int = 0
    gate_probes: int = 0
    gate_disabled_steps: int = 0
    recomputed: int = 0
    source_error: str | None = None

    @property
    def acceptance_rate(self) -> float:
        """Share of the draft tokens that were accepted; 0 when nothing was drafted."""
        return _ratio(self.accepted, self.drafted)

    @property
    def tokens_per_step(self) -> float:
        """Mean acceptance length: tokens per forward, correction and bonus tokens included.

        Plain decoding has exactly 1.
        """
        return _ratio(self.committed, self.steps)

    @property
    def prompt_tokens_per_s(self) -> float:
        """Prefill speed."""
        return _ratio(self.prompt_tokens, self.prefill_s)

    @property
    def tokens_per_s(self) -> float:
        """Generation speed, without the first token when the prefill has paid for it."""
        return _ratio(self.committed - (self.prompt_tokens > 0), self.decode_s)


def total(parts: Iterable[GenerationStats]) -> GenerationStats:
    """Add up several generations; sources are muted as in the last one that knows them."""
    recorder = StatsRecorder()
    muted: dict[str, bool] = {}
    for part in parts:
        recorder.add(part)
        muted |= {name: counts.muted for name, counts in part.sources.items()}
    return recorder.snapshot(muted, None)


@dataclass(slots=True)
class StatsRecorder:
    """Counts of the generation under way. Its clock runs while decoding does."""

    steps: int = 0
    verify_steps: int = 0
    committed: int = 0
    prompt_tokens: int = 0
    prefill_s: float = 0.0
    forward_s: float = 0.0
    recomputed: int = 0
    gate: GateEvents = field(default_factory=GateEvents)
    _busy_s: float = 0.0
    _resumed_at: float | None = None
    _drafted: Counter[str] = field(default_factory=Counter)
    _accepted: Counter[str] = field(default_factory=Counter)

    def record(self, step: Step) -> None:
        """Count a step."""
        if not step.tokens:
            return
        self.steps += 1
        self.committed += len(step.tokens)
        if step.draft is not None:
            self.verify_steps += 1
            self._drafted[step.draft.source] += len(step.draft.tokens)
            self._accepted[step.draft.source] += step.accepted

    def add_forward(self, seconds: float, *, read: int) -> None:
        """Count a forward that read so many tokens of a prompt, or none."""
        if read > 0:
            self.prefill_s += seconds
            self.prompt_tokens += read
        else:
            self.forward_s += seconds

    def add(self, stats: GenerationStats) -> None:
        """Add a finished generation."""
        self.steps += stats.steps
        self.verify_steps += stats.verify_steps
        self.committed += stats.committed
        self.prompt_tokens += stats.prompt_tokens
        self.recomputed += stats.recomputed
        self.prefill_s += stats.prefill_s
        self.forward_s += stats.decode_s - stats.overhead_s
        self._busy_s += stats.prefill_s + stats.decode_s
        self.gate = GateEvents(
            self.gate.trips + stats.gate_trips,
            self.gate.probes + stats.gate_probes,
            self.gate.disabled_steps + stats.gate_disabled_steps,
        )
        for name, counts in stats.sources.items():
            self._drafted[name] += counts.drafted
            self._accepted[name] += counts.accepted

    def with_step(self, step: Step) -> StatsRecorder:
        """A copy that counts ``step`` too."""
        copy = replace(self, _drafted=Counter(self._drafted), _accepted=Counter(self._accepted))
        copy.record(step)
        return copy

    def resume(self) -> None:
        """Start the clock: decoding works."""
        self._resumed_at = perf_counter()

    def pause(self) -> None:
        """Stop the clock: the caller works. Does nothing when it stands already."""
        if self._resumed_at is not None:
            self._busy_s += perf_counter() - self._resumed_at
            self._resumed_at = None

    def snapshot(self, muted: Mapping[str, bool], source_error: str | None) -> GenerationStats:
        """The counts so far. ``muted`` names all known sources and says which are muted."""
        names = dict.fromkeys((*muted, *self._drafted))
        muted_now = {name for name, is_muted in muted.items() if is_muted}
        decode_s = max(0.0, self._busy_s - self.prefill_s)
        return GenerationStats(
            steps=self.steps,
            verify_steps=self.verify_steps,
            drafted=self._drafted.total(),
            accepted=self._accepted.total(),
            committed=self.committed,
            prompt_tokens=self.prompt_tokens,
            prefill_s=self.prefill_s,
            decode_s=decode_s,
            overhead_s=max(0.0, decode_s - self.forward_s),
            sources={
                name: SourceCounts(self._drafted[name], self._accepted[name], name in muted_now)
                for name in names
            },
            gate_trips=self.gate.trips,
            gate_probes=self.gate.probes,
            gate_disabled_steps=self.gate.disabled_steps,
            recomputed=self.recomputed,
            source_error=source_error,
        )


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
