"""One stream of tokens: what is committed, and what the next forward has to compute.

Boundary: a state machine. It plans a segment, takes the rows, and commits tokens. It runs no
forward (:mod:`maglio.decode.run` and :mod:`maglio.decode.scheduler` do) and knows no text.

Losslessness. Every draft is deterministic, that is, a proposal distribution with all its mass on
one token. Speculative sampling (Leviathan et al., ICML 2023) then becomes: pick from each verified
row with the whole pipeline, go on while the pick is the draft token, and let the first other pick
stand as the correction. Each row is picked from when its prefix is committed, so penalties see
what they would see in plain decoding and every committed token takes one random number. On an
engine that keeps the row law the stream is the plain one, token for token; with other engines it
is one that plain decoding would produce with the same probability.

One truth. The token list (:mod:`maglio.decode.turn`) is the only state that counts. The cache, the
picker's history, the transcript and the draft source follow it: each is made level with it before
use. So an exception or an interrupt at any point loses time and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from maglio.checks import MAX_TOKEN_ID, check_int
from maglio.decode.constraint import Constraint
from maglio.decode.drafter import Drafter, StreamView
from maglio.decode.guard import MarginGuard
from maglio.decode.logprob import MAX_ALTERNATIVES
from maglio.decode.picker import Chooser
from maglio.decode.plan import Plan, Sent
from maglio.decode.stats import GenerationStats, StatsRecorder
from maglio.decode.token import Token
from maglio.decode.turn import NOWHERE, FinishReason, Transcript, Turn
from maglio.decode.walk import walk
from maglio.draft.source import Draft, Step
from maglio.economics.gate import GateEvents
from maglio.engine.base import Cache, Logits, Segment
from maglio.errors import InvalidArgumentError, MaglioError
from maglio.tokens import checked_tokens


class Sequence:
    """One stream of tokens on one cache.

    A generation is :meth:`begin`, then :meth:`next_segment`, a forward, :meth:`accept` and
    :meth:`take` until :attr:`finish_reason` is set. It can be left at any point: what was taken
    stays, and ``begin(())`` goes on as if nothing had been in between.

    Args:
        cache: empty, or holding a beginning of ``tokens``.
        picker: chooses tokens; it serves this sequence alone.
        drafter: proposes drafts; ``None`` decodes plainly.
        n_ctx: most positions of the cache.
        tokens: the stream so far.
        position: where the random stream stands.
        guard: says which choices stand although their row was computed with others; where one does
            not, the row is computed alone. Without it all do.

    Raises:
        InvalidArgumentError: an argument is out of range, or the cache holds more than ``tokens``.
    """

    def __init__(
        self,
        cache: Cache,
        picker: Chooser,
        drafter: Drafter | None = None,
        *,
        n_ctx: int,
        tokens: Iterable[int] = (),
        position: int = 0,
        guard: MarginGuard | None = None,
    ) -> None:
        stream = checked_tokens("tokens", tokens, picker.n_vocab)
        if cache.length > len(stream):
            raise InvalidArgumentError(
                f"the cache holds {cache.length} positions and tokens has {len(stream)}; give the "
                "tokens that are in the cache"
            )
        self.cache = cache
        self.picker = picker
        self.drafter = drafter
        self._guard = guard
        self._is_close = False  # whether the next row was too close to choose from
        self._n_ctx = n_ctx
        n = len(stream)
        self._turn = Turn(stream, n, n, n, position, answer=n)
        self._known = cache.length  # positions of the cache that hold tokens of the list
        self._begun_with = cache.length  # what an eviction leaves: others may share it
        self._is_level = False  # whether all followers hold the list, if all of it was taken
        self._planned: Plan | None = None
        self._sent: Sent | None = None
        self._last: tuple[int, Step] | None = None  # the step under delivery and where it begins
        self._gate_before = GateEvents()
        self.recorder = StatsRecorder()

    @property
    def tokens(self) -> tuple[int, ...]:
        """The committed stream: prompts and delivered tokens, in order."""
        turn = self._turn
        return tuple(turn.tokens[: turn.taken])

    @property
    def length(self) -> int:
        """The number of :attr:`tokens`."""
        return self._turn.taken

    @property
    def position(self) -> int:
        """Where the random stream stands: how many tokens were generated."""
        return self._turn.position

    @property
    def turn(self) -> object:
        """Another object after every begin and rewind: tells generations apart."""
        return self._turn

    @property
    def is_begun(self) -> bool:
        """Whether there was a generation since it was made or rewound."""
        return self._turn.max_tokens is not None

    @property
    def wants_to_be_alone(self) -> bool:
        """Whether the next forward should compute one row of this sequence and nothing else."""
        return self._is_close

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the generation has ended.

        ``stop``: a stop token or a stop string. ``length``: ``max_tokens``, or the context is full.
        ``None``: it goes on, its last tokens were not taken, or there was none.
        """
        turn = self._turn
        if turn.end is not None:
            length, reason = turn.end
            return reason if turn.taken >= length else None
        if turn.max_tokens is None or turn.wants_token(self._n_ctx):
            return None
        return "length" if min(self._known, turn.cut) >= len(turn.tokens) - 1 else None

    @property
    def stats(self) -> GenerationStats:
        """Statistics of the last generation, up to what was taken."""
        recorder = self.recorder.with_step(self._taken_of_last())
        if self.drafter is None:
            return recorder.snapshot({}, None)
        recorder.gate = self.drafter.gate_events.since(self._gate_before)
        return recorder.snapshot(self.drafter.parts(), self.drafter.error)

    def begin(
        self,
        prompt: Iterable[int] = (),
        *,
        max_tokens: int,
        stops: Iterable[int] = (),
        transcript: Transcript | None = None,
        constraint: Constraint | None = None,
        logprobs: int | None = None,
    ) -> None:
        """Commit ``prompt`` and generate after it. A generation under way is left as it stands.

        Args:
            prompt: token ids. May be empty only to go on after a stream that is not empty, be it
                one that reached ``max_tokens`` or one that was interrupted: the result is as if it
                had not ended.
            max_tokens: most tokens to generate; 0 only feeds the prompt to the cache.
            stops: ids that end the generation. The stop token is committed.
            transcript: reads the generated tokens, and ends the generation at a stop string.
            constraint: a new one, that says which tokens may come.
            logprobs: how many of the most probable tokens to list with each token's own
                log-probability; neither is kept when ``None``.

        Raises:
            InvalidArgumentError: an argument can never work; nothing is changed.
            ContextFullError: the prompt does not fit the context; nothing is changed.
        """
        n_vocab = self.picker.n_vocab
        ids = checked_tokens("prompt_tokens", prompt, n_vocab)
        check_int("max_tokens", max_tokens, 0, MAX_TOKEN_ID)
        if logprobs is not None:
            check_int("logprobs", logprobs, 0, MAX_ALTERNATIVES)
        stop_ids = frozenset(checked_tokens("stop_tokens", stops, n_vocab))
        turn = self._turn
        if not ids and turn.taken == 0:
            raise InvalidArgumentError("prompt_tokens is empty, must hold at least one token")
        turn.check_room(len(ids), self._n_ctx)
        total = turn.taken + len(ids)
        self._is_level = False
        self._turn = Turn(
            [*turn.tokens[: turn.taken], *ids],
            total,
            total,
            total if ids else total - 1,
            self.position,
            min(turn.cut, turn.taken),
            max_tokens,
            stop_ids,
            transcript,
            constraint,
            logprobs,
            answer=total if ids else turn.answer,
        )
        self.recorder = StatsRecorder()
        self._last = self._planned = self._sent = None
        self._is_close = False
        if self.drafter is not None:
            self.drafter.revive()
            self._gate_before = self.drafter.gate_events

    def rewind(self, length: int) -> None:
        """Cut the stream back to ``length`` tokens, to go on differently from there.

        The random stream stays where it is. A generation under way is given up; its statistics
        stay until the next one.

        Raises:
            InvalidArgumentError: the stream is not that long.
        """
        turn = self._turn
        check_int("length", length, 0, turn.taken)
        self._record_last()
        self._begun_with = min(self._begun_with, length)
        if length < turn.taken:
            kept, cut = turn.tokens[:length], min(turn.cut, length)
            self._is_level = False
            self._turn = Turn(kept, length, length, length, self.position, cut, answer=length)
            self._planned = self._sent = None
            self._is_close = False
        self._level()

    def evict(self, *, release: bool = False) -> None:
        """Give the memory of the cache back; the next plan computes again what it held.

        What the cache held from the start stays unless it is to ``release`` that too: it is likely
        to be shared, and then takes no memory of its own.
        """
        self._planned = self._sent = None
        self._is_level = False
        self._known = min(self._known, 0 if release else self._begun_with)
        self._drop_rejected()

    def plan(self, *, drafts: bool = True) -> Plan:
        """Make all followers level, and say what the next forward should compute.

        Without ``drafts`` none is asked for, which saves the time where none would pay.

        Raises:
            InvalidLogitsError: the next token cannot be sampled,
            GrammarError: or its grammar cannot be followed; the last step met that in a draft.
        """
        self._level()
        turn = self._turn
        if turn.failure is not None:
            raise turn.failure
        self._known = min(self._known, self.cache.length)  # a truncate may have been interrupted
        wanted = len(turn.tokens) - (not turn.wants_token(self._n_ctx))
        if self._known == wanted:  # a row comes from feeding its token
            self._known = wanted - 1
            self._drop_rejected()
        missing = wanted - self._known
        draft = None
        alone = self._is_close and missing == 1
        if drafts and missing == 1 and self._known >= turn.prefill and not alone:
            draft = self._draft(turn)
        self._planned = Plan(missing, draft, alone)
        return self._planned

    def next_segment(self, rows: int) -> Segment:
        """Return the planned segment, cut to ``rows`` tokens.

        Args:
            rows: the most tokens; more of a prompt comes with the next segment, of a draft never.
        """
        missing, draft, _ = self._planned or self.plan()
        turn, base = self._turn, self._known
        ahead = missing - 1 if self._is_close and missing > 1 else missing
        tokens = turn.tokens[base : base + min(ahead, rows)]
        draft = None if draft is None or rows == 1 else draft.first(rows - 1)
        n_logits = int(len(tokens) == missing and turn.wants_token(self._n_ctx))
        if draft is not None:
            tokens += draft.tokens
            n_logits = len(tokens)
        self._is_level = False  # the cache will hold more, whatever becomes of the rows
        self._sent = Sent(base, tokens, draft, n_logits, self._is_close)
        return Segment(self.cache, tokens, n_logits)

    def accept(self, rows: Logits, *, seconds: float = 0.0, beside: int = 0) -> Step:
        """Commit what the rows of the last segment say; :meth:`take` delivers it.

        Args:
            rows: float32 ``(n_logits, n_vocab)``.
            seconds: what the forward took, for the statistics.
            beside: rows of other sequences in the same forward, for the cost gate.

        Returns:
            The step; it has no tokens when a prompt is not finished.

        Raises:
            MaglioError: the rows are not those of the last segment.
            InvalidLogitsError: the first row cannot be sampled; nothing is committed.
            GrammarError: the grammar cannot be followed at the first row; nothing is committed.
        """
        sent, self._sent, self._planned = self._sent, None, None
        if sent is None or len(rows) != sent.n_logits:
            raise MaglioError("these rows are not those of the last segment of the sequence")
        turn = self._turn
        begin = len(turn.tokens)
        is_prefill = sent.base < turn.prefill and not sent.again
        self._record_last()
        self.recorder.add_forward(seconds, read=len(sent.tokens) if is_prefill else 0)
        if sent.n_logits == 0:
            self._known = sent.base + len(sent.tokens)
            if not turn.wants_token(self._n_ctx) and self._known >= begin - 1:
                turn.end = begin, "length"
            return Step(())
        is_alone = beside == 0 and len(sent.tokens) == 1
        guard = None if is_alone else self._guard
        accepted, judged, self._is_close = walk(turn, sent, rows, self.picker, guard, self._n_ctx)
        self.recorder.recomputed += self._is_close
        fed = sent.tokens[-sent.n_logits :]
        step = Step(
            turn.tokens[begin:],
            fed,
            None if sent.draft is None or judged == 0 else sent.draft.first(judged),
            accepted,
            None if self.drafter is None else self.drafter.best(rows),
        )
        n_draft = 0 if sent.draft is None else len(sent.draft.tokens)
        computed = sent.base + len(sent.tokens) - n_draft + accepted
        self._known = min(computed, len(turn.tokens) - 1)  # the last one is fed next
        self._last = (begin, step)
        if self.drafter is not None:
            self.drafter.hear(step)
            if turn.end is None and not is_prefill:  # an end cuts a draft short
                self.drafter.judge(rows=len(fed), committed=len(step.tokens), beside=beside)
        self._drop_rejected()
        self._is_level = True
        return step

    def take(self) -> Iterator[Token]:
        """Deliver committed tokens. A token stands once it is taken."""
        turn = self._turn
        while turn.taken < len(turn.tokens) and self._turn is turn:
            index = turn.taken
            token = Token(turn.tokens[index], self._label(index), turn.logprob(index))
            turn.taken = index + 1
            yield token

    def _draft(self, turn: Turn) -> Draft | None:
        if self.drafter is None:
            return None
        view = StreamView(turn.tokens)
        if not self.drafter.tell(view, turn.settled):
            return None
        wanted = (turn.max_tokens or 0) - (len(turn.tokens) - turn.start)
        room = self._n_ctx - self._known
        return self.drafter.propose(view, min(wanted, room) - 1, turn.constraint)

    def _taken_of_last(self) -> Step:
        """The step under delivery, as far as its tokens were taken."""
        if self._last is None:
            return Step(())
        begin, step = self._last
        return step.first(max(0, min(len(step.tokens), self._turn.taken - begin)))

    def _record_last(self) -> None:
        step, self._last = self._taken_of_last(), None
        self.recorder.record(step)

    def _label(self, index: int) -> str:
        if self._last is None:
            return "model"
        begin, step = self._last
        is_accepted = step.draft is not None and index - begin < step.accepted
        return step.draft.source if step.draft is not None and is_accepted else "model"

    def _drop_rejected(self) -> None:
        """Leave in the cache only what is known to hold tokens of the list."""
        if self.cache.length > self._known:
            self._known = self.cache.truncate(self._known)

    def _level(self) -> None:
        """Make every follower hold the list and nothing else. Twice does no harm."""
        self._planned = self._sent = None
        turn = self._turn
        tokens = turn.tokens
        if self._is_level and turn.taken == len(tokens):
            return
        self._is_level = False
        if turn.drop_untaken():
            self._record_last()
            self._is_close = False
        cut = min(turn.cut, len(tokens))
        self._known = min(self._known, cut, self.cache.length)
        self._drop_rejected()
        self.picker.follow(tokens, kept=cut, answer=turn.answer)
        turn.read(cut)
        if self.drafter is not None:
            self.drafter.follow(tokens, kept=cut)
        turn.cut = NOWHERE
        self._is_level = True
