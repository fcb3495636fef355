"""The driver of many streams: one forward a step for all of them.

Boundary: decides which rows of which sequence a forward holds. What a sequence commits does not
depend on that: each one gets, to the bit, what it would get alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import NamedTuple

from maglio.checks import check_int
from maglio.decode.plan import Plan
from maglio.decode.sequence import Sequence
from maglio.draft.source import Step
from maglio.economics.allot import allot, could_pay
from maglio.economics.live_cost import LiveCost
from maglio.engine.base import Engine, Logits, Segment
from maglio.errors import InvalidArgumentError, OutOfMemoryError


class Progress(NamedTuple):
    """What a step did for one sequence.

    Attributes:
        sequence: the sequence.
        step: what it committed, to be taken; ``None`` when it failed.
        error: why it failed. It is not scheduled any more.
    """

    sequence: Sequence
    step: Step | None
    error: Exception | None = None


class _Share(NamedTuple):
    """A sequence, its plan, and the rows that it gets in this step."""

    sequence: Sequence
    plan: Plan
    rows: int


class Scheduler:
    """Runs many sequences of one engine together.

    A step is one forward. Every sequence that generates has a row in it, and draft tokens where
    they pay beside the other rows. One whose margin guard asks for that has a step of its own.
    Prompts are read a piece a step, the oldest first, so that a
    long one does not hold up the others.

    When there is no memory for more positions, ``reclaim`` is asked for some first. Then the
    youngest sequence waits: it gives its memory back, and is computed again when another has ended.
    Who comes meanwhile waits behind it.

    Args:
        engine: the engine of all caches.
        cost: what a forward costs; learns it from steps with one sequence.
        prefill_rows: most rows of prompts in a step in which others generate.
        reclaim: gives memory of the engine back that no sequence needs, and returns whether it had
            any; is called until a forward fits.
        clock: times forwards, in seconds.

    Raises:
        InvalidArgumentError: ``prefill_rows`` is under 1.
    """

    def __init__(
        self,
        engine: Engine,
        cost: LiveCost,
        *,
        prefill_rows: int = 64,
        reclaim: Callable[[], bool] | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        check_int("prefill_rows", prefill_rows, 1, 1 << 30)
        self._engine = engine
        self._cost = cost
        self._prefill_rows = prefill_rows
        self._reclaim = reclaim
        self._clock = clock
        self._sequences: list[Sequence] = []  # oldest first; what is past the limit waits
        self._limit: int | None = None  # how many there was memory for, when it last ran out
        self._failed: list[Progress] = []  # to be told with the next step

    def __len__(self) -> int:
        """Sequences that have not ended."""
        return len(self._sequences)

    def add(self, sequence: Sequence) -> None:
        """Run a sequence with a generation under way.

        Raises:
            InvalidArgumentError: nothing was begun on it, it is there already, or there are as many
                sequences as a forward has rows.
        """
        if not sequence.is_begun:
            raise InvalidArgumentError("nothing was begun on the sequence; call its begin first")
        if sequence in self._sequences:
            raise InvalidArgumentError("the sequence is scheduled already")
        if len(self) >= self._engine.max_rows:
            raise InvalidArgumentError(
                f"{len(self)} sequences are scheduled, which is the most that a forward of "
                f"{self._engine.max_rows} rows can serve; wait until one has ended"
            )
        self._sequences.append(sequence)

    def cancel(self, sequence: Sequence) -> None:
        """Run a sequence no more, and tell no more of it. What was taken of it stands.

        Unknown ones are ignored.
        """
        if sequence in self._sequences:
            self._sequences.remove(sequence)
        self._failed = [line for line in self._failed if line.sequence is not sequence]

    def step(self) -> list[Progress]:
        """Run one forward, and commit what it says.

        Take the tokens of every sequence before the next step; those that were not taken are
        computed again.

        Returns:
            A line for each sequence that was in the forward, or that failed; empty when there is
            nothing to run. Sequences that have ended leave.
        """
        while True:
            shares = self._shares()
            if not shares:
                return self._told([])
            segments = [share.sequence.next_segment(share.rows) for share in shares]
            begin = self._clock()
            for share in shares:
                share.sequence.recorder.resume()
            try:
                rows = self._engine.forward(segments)
                break
            except OutOfMemoryError as error:
                if self._reclaim is None or not self._reclaim():
                    self._make_room(error)
            finally:
                for share in shares:
                    share.sequence.recorder.pause()
        seconds = self._clock() - begin
        if len(segments) == 1 and segments[0].n_logits == len(segments[0].tokens):
            self._cost.learn(segments[0].n_logits, seconds)
        return self._told(self._commit(shares, segments, rows, seconds))

    # --- inside ----------------------------------------------------------------------------------

    def _told(self, done: list[Progress]) -> list[Progress]:
        failed, self._failed = self._failed, []
        return failed + done

    def _fail(self, sequence: Sequence, error: Exception) -> None:
        """A sequence ends here, and the others go on."""
        self._failed.append(Progress(sequence, None, error))
        self._sequences.remove(sequence)

    def _running(self) -> list[Sequence]:
        """The sequences that there is memory for; the others hold none."""
        self._sequences = [s for s in self._sequences if s.finish_reason is None]
        if self._limit is None or len(self._sequences) <= self._limit:
            self._limit = None
            return list(self._sequences)
        for sequence in self._sequences[self._limit :]:
            sequence.evict()
        return self._sequences[: self._limit]

    def _shares(self) -> list[_Share]:
        """Share the rows of the next forward out."""
        for sequence in self._running():
            if sequence.wants_to_be_alone:
                plan = self._plan(sequence, drafts=False)
                if plan is not None and plan.alone:
                    return [_Share(sequence, plan, 1)]
        running = self._running()
        drafts = could_pay(len(running), self._cost)
        planned = [(sequence, self._plan(sequence, drafts=drafts)) for sequence in running]
        plans = [(sequence, plan) for sequence, plan in planned if plan is not None]
        generating = [(s, p) for s, p in plans if p.missing == 1]
        reading = [(s, p) for s, p in plans if p.missing > 1]
        free = self._engine.max_rows - len(generating)
        pieces = self._pieces(reading, min(free, self._prefill_rows) if generating else free)
        lengths = self._draft_lengths(
            [plan for _, plan in generating], beside=sum(pieces), free=free - sum(pieces)
        )
        shares = [
            _Share(sequence, plan, 1 + length)
            for (sequence, plan), length in zip(generating, lengths, strict=True)
        ]
        shares += [
            _Share(sequence, plan, piece)
            for (sequence, plan), piece in zip(reading, pieces, strict=True)
            if piece > 0
        ]
        return shares

    def _plan(self, sequence: Sequence, *, drafts: bool) -> Plan | None:
        """The plan of a sequence, which fails alone if it has none."""
        try:
            return sequence.plan(drafts=drafts)
        except Exception as error:  # of its cache, its transcript or its penalties
            self._fail(sequence, error)
            return None

    @staticmethod
    def _pieces(reading: Iterable[tuple[Sequence, Plan]], rows: int) -> list[int]:
        """How many tokens of each prompt are read; the oldest prompt first."""
        pieces = []
        for _, plan in reading:
            piece = min(plan.missing, rows)
            pieces.append(piece)
            rows -= piece
        return pieces

    def _draft_lengths(self, plans: list[Plan], *, beside: int, free: int) -> list[int]:
        """How many draft tokens each generating sequence verifies."""
        if len(plans) == 1 and beside == 0 and self._cost.wants_plain:
            return [0]
        drafts = [plan.draft for plan in plans]
        whole = [0 if d is None or d.odds else len(d.tokens) for d in drafts]
        odds = [() if d is None else d.odds for d in drafts]
        allotted = allot(odds, self._cost, beside=beside + sum(whole))
        lengths = [max(pair) for pair in zip(whole, allotted, strict=True)]
        for index, length in enumerate(lengths):
            lengths[index] = min(length, free)
            free -= lengths[index]
        return lengths

    def _commit(
        self, shares: list[_Share], segments: list[Segment], rows: list[Logits], seconds: float
    ) -> list[Progress]:
        total = sum(len(segment.tokens) for segment in segments)
        done: list[Progress] = []
        for share, segment, logits in zip(shares, segments, rows, strict=True):
            beside = total - len(segment.tokens)
            try:
                step = share.sequence.accept(logits, seconds=seconds, beside=beside)
            except Exception as error:  # of its row, its transcript or its penalties
                self._fail(share.sequence, error)
            else:
                done.append(Progress(share.sequence, step))
        return done

    def _make_room(self, error: OutOfMemoryError) -> None:
        """Let the youngest that runs wait; if it runs alone, it fails."""
        running = self._running()
        self._limit = max(1, len(running) - 1)
        if len(running) == 1:
            running[0].evict()
            self._fail(running[0], error)
