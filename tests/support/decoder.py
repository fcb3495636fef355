"""A sequence with an engine, as most tests of decoding want it: prompt in, tokens out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from time import perf_counter

from maglio.decode import Drafter, GenerationStats, MarginGuard, Picker, Sequence, Token, run
from maglio.draft.source import DraftSource
from maglio.economics.cost import NATIVE_COST
from maglio.economics.gate import CostGate
from maglio.economics.live_cost import LiveCost
from maglio.engine.base import Cache, Engine


class StopWhen:
    """A transcript that ends a generation when a function of its tokens says so."""

    def __init__(self, should_stop: Callable[[int], bool]) -> None:
        self.tokens: list[int] = []
        self._should_stop = should_stop

    @property
    def length(self) -> int:
        return len(self.tokens)

    @property
    def settled(self) -> int:
        return len(self.tokens)

    def push(self, token: int) -> bool:
        self.tokens.append(token)
        return self._should_stop(token)

    def truncate(self, length: int) -> None:
        del self.tokens[length:]


class Decoder:
    """Drives one sequence."""

    def __init__(
        self,
        engine: Engine,
        picker: Picker,
        source: DraftSource | None = None,
        *,
        max_draft: int = 16,
        gate: CostGate | None = None,
        cost: LiveCost | None = None,
        clock: Callable[[], float] | None = perf_counter,
        tokens: Iterable[int] = (),
        position: int = 0,
        cache: Cache | None = None,
        guard: MarginGuard | None = None,
    ) -> None:
        self.engine = engine
        self.cache = engine.new_cache() if cache is None else cache
        self.picker = picker
        self.cost = cost or LiveCost(NATIVE_COST)
        self.clock = clock
        drafter = None
        if source is not None:
            drafter = Drafter(source, picker.n_vocab, max_draft=max_draft, gate=gate)
        self.sequence = Sequence(
            self.cache,
            picker,
            drafter,
            n_ctx=engine.n_ctx,
            tokens=tokens,
            position=position,
            guard=guard,
        )

    @property
    def tokens(self) -> tuple[int, ...]:
        return self.sequence.tokens

    @property
    def finish_reason(self) -> str | None:
        return self.sequence.finish_reason

    @property
    def stats(self) -> GenerationStats:
        return self.sequence.stats

    def rewind(self, length: int) -> None:
        self.sequence.rewind(length)

    def generate(
        self,
        prompt: Iterable[int] = (),
        *,
        max_tokens: int,
        stop_tokens: Iterable[int] = (),
        should_stop: Callable[[int], bool] | None = None,
    ) -> Iterator[Token]:
        transcript = None if should_stop is None else StopWhen(should_stop)
        self.sequence.begin(prompt, max_tokens=max_tokens, stops=stop_tokens, transcript=transcript)
        return run(self.engine, self.sequence, self.cost, clock=self.clock)

    def settle(self) -> None:
        """Make all followers level, as the next use of the sequence would."""
        self.sequence.rewind(self.sequence.length)
