"""Replays a recorded stream against a draft source, as the decoder would drive it. No model.

The recorded tokens are what the model says, so a draft can be judged without it. What a recording
cannot give is the rows after rejected draft tokens: a source that learns from rows gets those of
the committed tokens, one fewer kind than the decoder delivers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import takewhile

from maglio.bench.stream import Ids, TokenStream, Turn
from maglio.decode.drafter import StreamView
from maglio.draft.cascade import Cascade
from maglio.draft.source import Draft, DraftSource, Step
from maglio.economics.allot import allot
from maglio.economics.cost import CostModel


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
    streams: Iterable[TokenStream],
    make: Callable[[], DraftSource],
    cost: CostModel,
    *,
    max_draft: int,
    predict: bool = False,
) -> dict[str, Tally]:
    """Replay every stream against a source of its own.

    Args:
        streams: what to replay.
        make: returns the source for the next stream.
        cost: what a forward costs; cuts drafts that come with odds.
        max_draft: most draft tokens of a step.
        predict: whether a target's material is announced to the source as its prediction.

    Returns:
        The counts by group, in the order of first appearance.
    """
    tallies: dict[str, Tally] = {}
    for stream in streams:
        replayed = replay_stream(stream, make(), cost, max_draft=max_draft, predict=predict)
        tallies.setdefault(stream.group, Tally()).add(replayed)
    return tallies


def replay_stream(
    stream: TokenStream,
    source: DraftSource,
    cost: CostModel,
    *,
    max_draft: int,
    predict: bool = False,
) -> Tally:
    """Replay one stream turn by turn; every target turn is generated, the others are given."""
    seat = _Seat(source, cost, max_draft)
    for turn in stream.turns:
        if turn.is_target:
            if predict:
                seat.expect(turn)
            seat.generate(turn)
        else:
            seat.give(turn)
    return seat.tally


class _Seat:
    """The decoder's place: commits what is recorded, and tells the source what it would hear."""

    def __init__(self, source: DraftSource, cost: CostModel, max_draft: int) -> None:
        self.tally = Tally()
        self._source = source
        self._cost = cost
        self._max_draft = max_draft
        self._committed: list[int] = []
        self._view = StreamView(self._committed)

    def give(self, turn: Turn) -> None:
        """A turn that is prefilled; its rows are at hand, if they were recorded."""
        if self._candidates(turn) is not None:
            self._commit(Step(()), turn, 0, len(turn.tokens))
        self._commit(Step(turn.tokens.tolist()))  # with the rows it would not look like a prompt

    def expect(self, turn: Turn) -> None:
        """Announce what the turn is made from, as a caller would who knows it."""
        if turn.material is not None and isinstance(self._source, Cascade):
            self._source.predict(turn.material, begin=len(self._committed))

    def generate(self, turn: Turn) -> None:
        """A turn that is generated. Its first token comes with the prefill."""
        tokens: list[int] = turn.tokens.tolist()
        self._commit(Step(tokens[:1], self._committed[-1:]))
        done = 1
        while done < len(tokens):
            done += self._step(turn, tokens, done)

    def _step(self, turn: Turn, tokens: list[int], done: int) -> int:
        draft = self._draft()
        proposed = () if draft is None else draft.tokens
        agreeing = takewhile(
            lambda pair: pair[0] == pair[1], zip(proposed, tokens[done:], strict=False)
        )
        accepted = sum(1 for _ in agreeing)
        committed = min(accepted + 1, len(tokens) - done)
        judged = len(proposed) if accepted < committed else accepted
        step = Step(
            tokens[done : done + committed],
            tokens[done - 1 : done + committed - 1],
            None if draft is None else draft.first(judged),
            accepted,
        )
        self._commit(step, turn, done - 1, done + committed - 1)
        tally = self.tally
        tally.steps += 1
        tally.tokens += committed
        tally.drafted += len(proposed)
        tally.accepted += accepted
        tally.widths[1 + len(proposed)] += 1
        return committed

    def _draft(self) -> Draft | None:
        draft = self._source.propose(self._view, self._max_draft)
        if draft is None:
            return None
        length = self._max_draft
        if draft.odds:
            [length] = allot([draft.odds[:length]], self._cost)
        draft = draft.first(length)
        return draft if len(draft.tokens) > 0 else None

    def _commit(self, step: Step, turn: Turn | None = None, begin: int = 0, end: int = 0) -> None:
        """Tell of a step, with the candidates of the turn's rows ``begin`` to ``end``."""
        candidates = None if turn is None else self._candidates(turn)
        if turn is not None and candidates is not None:
            fed = turn.tokens[begin:end].tolist()
            step = replace(step, fed=fed, top=candidates[begin:end])
        self._committed += step.tokens
        self._source.observe(step)

    def _candidates(self, turn: Turn) -> Ids | None:
        """The best of the turn's rows, if they were recorded and the source wants them."""
        return turn.candidates if self._source.topk else None
