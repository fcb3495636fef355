"""Replays a recorded stream against a draft source, as the decoder would drive it. No model.

The recorded tokens are what the model says, so a draft can be judged without it. What a recording
cannot give is the rows after rejected draft tokens: a source that learns from rows gets those of
the committed tokens, one fewer kind than the decoder delivers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice

from maglio.bench.stream import TokenStream, Turn
from maglio.decode.guard import StreamView
from maglio.draft.source import DraftSource
from maglio.draft.suffix import common_prefix
from maglio.economics.cost import CostModel


@dataclass(frozen=True, slots=True)
class Limits:
    """What is verified: drafts of up to ``max_draft`` tokens, none under ``min_draft``."""

    max_draft: int = 16
    min_draft: int = 1


@dataclass(slots=True)
class Tally:
    """What a replay did. The first token of a turn is the prefill's, and not counted.

    Attributes:
        steps: forwards.
        tokens: tokens that the forwards committed.
        drafted: draft tokens verified, those behind the end of a turn too.
        accepted: those of them that were right.
        widths: how many forwards had so many rows.
    """

    steps: int = 0
    tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    widths: Counter[int] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Add the counts of another replay."""
        self.steps += other.steps
        self.tokens += other.tokens
        self.drafted += other.drafted
        self.accepted += other.accepted
        self.widths.update(other.widths)

    @property
    def acceptance_rate(self) -> float:
        """Accepted draft tokens per drafted one; 0 when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def mean_acceptance_length(self) -> float:
        """Tokens per forward, the bonus or correction included; 1 is plain decoding."""
        return self.tokens / self.steps if self.steps else 1.0

    @property
    def rows_per_accepted(self) -> float | None:
        """Drafted rows for each accepted token; ``None`` when none was accepted."""
        return self.drafted / self.accepted if self.accepted else None

    def speedup(self, cost: CostModel) -> float:
        """Plain steps that the tokens would take, for each plain step that they took."""
        paid = sum(cost.cost(rows) * count for rows, count in sorted(self.widths.items()))
        return self.tokens / paid if paid else 1.0


def replay(
    streams: Iterable[TokenStream], make: Callable[[], DraftSource], limits: Limits
) -> dict[str, Tally]:
    """Replay every stream against a source of its own.

    Args:
        streams: what to replay.
        make: returns the source for the next stream.
        limits: what is verified.

    Returns:
        The counts by group, in the order of first appearance.
    """
    tallies: dict[str, Tally] = {}
    for stream in streams:
        replayed = replay_stream(stream, make(), limits)
        tallies.setdefault(stream.group, Tally()).add(replayed)
    return tallies


def replay_stream(stream: TokenStream, source: DraftSource, limits: Limits) -> Tally:
    """Replay one stream turn by turn; every target turn is generated, the others are given."""
    seat = _Seat(source, limits)
    for turn in stream.turns:
        if turn.is_target:
            seat.generate(turn)
        else:
            seat.give(turn)
    return seat.tally


class _Seat:
    """The decoder's place: commits what is recorded, and tells the source what it would hear."""

    def __init__(self, source: DraftSource, limits: Limits) -> None:
        self.tally = Tally()
        self._source = source
        self._limits = limits
        self._committed: list[int] = []
        self._view = StreamView(self._committed)
        observe_topk = getattr(source, "observe_topk", None)
        self._observe_topk = observe_topk if getattr(source, "topk", 0) else None
        self._truncate_pending = getattr(source, "truncate_pending", None)

    def give(self, turn: Turn) -> None:
        """A turn that is prefilled: its rows are at hand, if recorded."""
        self._rows(turn, 0, len(turn.tokens))
        self._commit(turn.tokens.tolist())

    def generate(self, turn: Turn) -> None:
        tokens: list[int] = turn.tokens.tolist()
        self._commit(tokens[:1])
        done = 1
        while done < len(tokens):
            done += self._step(turn, tokens, done)
        self._rows(turn, len(tokens) - 1, len(tokens))

    def _step(self, turn: Turn, tokens: list[int], done: int) -> int:
        limit = self._limits.max_draft
        proposed = list(islice(self._source.suggest(self._view, limit), limit))
        draft = proposed if len(proposed) >= self._limits.min_draft else []
        accepted = common_prefix(draft, tokens[done:])
        committed = min(accepted + 1, len(tokens) - done)
        tried = len(draft) if accepted < committed else accepted
        self._rows(turn, done - 1, done + committed - 1)
        if tried < len(proposed) and self._truncate_pending is not None:
            self._truncate_pending(tried)
        self._commit(tokens[done : done + committed])
        tally = self.tally
        tally.steps += 1
        tally.tokens += committed
        tally.drafted += len(draft)
        tally.accepted += accepted
        tally.widths[1 + len(draft)] += 1
        return committed

    def _rows(self, turn: Turn, begin: int, end: int) -> None:
        if self._observe_topk is not None and turn.candidates is not None:
            tokens = turn.tokens[begin:end].tolist()
            self._observe_topk(tokens, turn.candidates[begin:end])

    def _commit(self, tokens: list[int]) -> None:
        self._committed += tokens
        self._source.observe(tokens)
