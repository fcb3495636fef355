"""The decode loop: what is committed, and when a draft is verified. Knows token ids, no text.

Losslessness. Every draft is deterministic, that is, a proposal distribution with all its mass on
one token. Speculative sampling (Leviathan et al., ICML 2023) then becomes: sample each verified
row with the whole pipeline, keep going while the sample is the draft token, and let the first
other sample stand as the correction. Each row is sampled only when its prefix is committed, so
penalties see what they would see in plain decoding and every committed token takes one draw. On
an engine that keeps the row law the stream is the plain one, token for token; with other engines
it is one that plain decoding would produce with the same probability.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from time import perf_counter

from maglio.checks import MAX_TOKEN_ID, check_int
from maglio.decode.guard import GuardedSource, StreamView
from maglio.decode.options import DecodeOptions, FinishReason
from maglio.decode.sampler import Sampler
from maglio.decode.stats import GenerationStats, StatsRecorder
from maglio.decode.token import Token
from maglio.draft.source import DraftSource
from maglio.economics.gate import CostGate, GateEvents
from maglio.engine.base import Logits
from maglio.engine.session import Session
from maglio.errors import ContextFullError, InvalidArgumentError, MaglioError
from maglio.tokens import checked_tokens


@dataclass(slots=True, kw_only=True)
class _Run:
    """One call of generate: where it ends, where it began, what it did."""

    max_tokens: int
    stop_tokens: frozenset[int]
    should_stop: Callable[[int], bool] | None
    start: int  # length of the stream, prompt included, before the first generated token
    start_position: int  # of the random stream
    gate_before: GateEvents
    finish_reason: FinishReason | None = None
    stats: StatsRecorder = field(default_factory=StatsRecorder)


class SpeculativeDecoder:
    """Generates tokens on one session; drafts of ``source``, if any, only make it faster.

    The *committed stream* (:attr:`tokens`) is every prompt given so far with the tokens generated
    after each. While no generation is under way the cache of the session holds all of it but the
    last token (less, when a prefill or a forward was interrupted), and the next generation feeds
    what is missing. The sampler's history is the committed stream too.

    Stopping early leaves everything as plain decoding would leave it: tokens are sampled only
    when the caller asks for them, so after a ``break``, an exception or Ctrl-C the stream, the
    history and the random position end with the last token sampled. Close the generator then (a
    ``for`` loop over an otherwise unreferenced one does): until it is closed, or the next
    generation starts, the cache may hold rows of a draft that is not judged yet.

    Args:
        session: the KV cache to decode on, empty or holding a prefix of ``tokens``. It must not be
            used by others while a generation is under way, and the rows of a forward must stay
            as they are until its next one.
        sampler: chooses tokens; its vocabulary is the model's.
        source: proposes drafts. ``None`` decodes plainly.
        options: how much is drafted.
        gate: switches drafting off where it does not pay; ``None`` drafts always.
        clock: times forwards for the gate, in seconds; without one its cost table alone counts.
        tokens: the stream so far, if the session is not empty. The sampler and the source are
            told of it when the first generation starts.

    Raises:
        InvalidArgumentError: there is a source but the session cannot rewind, or the session
            holds more positions than ``tokens``.
    """

    def __init__(
        self,
        session: Session,
        sampler: Sampler,
        source: DraftSource | None = None,
        *,
        options: DecodeOptions | None = None,
        gate: CostGate | None = None,
        clock: Callable[[], float] | None = perf_counter,
        tokens: Iterable[int] = (),
    ) -> None:
        if source is not None and not session.can_rewind:
            raise InvalidArgumentError(
                f"{type(session).__name__} cannot drop rejected draft tokens from its cache "
                "(can_rewind is False), so it cannot decode speculatively; pass source=None "
                "for plain decoding"
            )
        self._tokens = checked_tokens("tokens", tokens, sampler.n_vocab)
        if session.length > len(self._tokens):
            raise InvalidArgumentError(
                f"the session holds {session.length} positions but the decoder was told of "
                f"{len(self._tokens)} tokens; pass those in the cache as tokens=..."
            )
        self._session = session
        self._sampler = sampler
        self._source = None if source is None else GuardedSource(source, sampler.n_vocab)
        self._options = options or DecodeOptions()
        self._gate = gate
        self._clock = clock
        self._view = StreamView(self._tokens)
        self._observed = 0  # how much of the stream the source was told of
        self._history_start = sampler.history_length
        self._intact = session.length  # rows that no failed forward can have touched
        self._unsettled = False
        self._cut = False  # the stream was cut back and not everybody knows
        self._lost: str | None = None
        self._run: _Run | None = None

    @property
    def tokens(self) -> tuple[int, ...]:
        """The committed stream: prompts and generated tokens, in order."""
        return tuple(self._tokens)

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the last generation ended.

        ``stop``: a stop token, or ``should_stop`` said so. ``length``: ``max_tokens``, or the
        context is full. ``None``: it has not ended, or not by itself.
        """
        return None if self._run is None else self._run.finish_reason

    @property
    def stats(self) -> GenerationStats:
        """Statistics of the last generation, up to now."""
        recorder = StatsRecorder() if self._run is None else self._run.stats
        if self._source is None:
            return recorder.snapshot({}, None)
        return recorder.snapshot(self._source.muted(), self._source.error)

    def rewind(self, length: int) -> None:
        """Cut the committed stream back to ``length`` tokens, to go on differently from there.

        The cache keeps the rows of what is left, and the sampler's history becomes what is left;
        the random stream stays where it is. A source that can is told (see
        :class:`~maglio.draft.source.Rewinds`). A generation under way is given up; its statistics
        are kept until the next one.

        Raises:
            InvalidArgumentError: the stream is not that long.
            MaglioError: the session cannot rewind.
        """
        if self._unsettled and self._run is not None:
            self._settle(self._run)
        check_int("length", length, 0, len(self._tokens))
        if length == len(self._tokens):
            return
        if self._run is not None:
            self._run = replace(self._run)  # whoever still advances the old one is told
        self._cut = True
        del self._tokens[length:]
        self._spread_cut()
        if self._lost is not None:
            raise MaglioError(self._lost)

    def _spread_cut(self) -> None:
        """Make everybody agree with a stream that was cut back. Twice does no harm."""
        length = len(self._tokens)
        self._rewind(length)
        self._intact = min(self._intact, self._session.length)
        self._sampler.restart(self._tokens)
        self._history_start = 0
        if self._source is not None and self._observed > length:
            self._source.rewind(tuple(self._tokens))
            self._observed = length
        self._cut = False

    def generate(
        self,
        prompt_tokens: Iterable[int],
        *,
        max_tokens: int,
        stop_tokens: Iterable[int] = frozenset(),
        should_stop: Callable[[int], bool] | None = None,
    ) -> Iterator[Token]:
        """Commit ``prompt_tokens`` after the stream so far and generate after them.

        The work, the prompt's commitment included, is done while the iterator is advanced. An
        iterator that was abandoned for a newer one cannot be advanced any more.

        Args:
            prompt_tokens: token ids. May be empty only to go on after a stream that is not
                empty, be it one that reached ``max_tokens`` or one whose generation or prefill
                was interrupted: the result is as if it had not ended.
            max_tokens: most tokens to generate; 0 only feeds the prompt to the cache.
            stop_tokens: ids that end the generation. The stop token is committed and yielded.
            should_stop: called once per committed token, in order, before it is yielded; a true
                result ends the generation with this token.

        Yields:
            The committed tokens, each with the source that predicted it.

        Raises:
            InvalidArgumentError: an argument can never work.
            ContextFullError: the prompt does not fit the context window.
            InvalidLogitsError: the engine produced a row that cannot be sampled.
        """
        n_vocab = self._sampler.n_vocab
        prompt = checked_tokens("prompt_tokens", prompt_tokens, n_vocab)
        if not prompt and not self._tokens:
            raise InvalidArgumentError("prompt_tokens is empty, must hold at least one token")
        check_int("max_tokens", max_tokens, 0, MAX_TOKEN_ID)
        stops = frozenset(checked_tokens("stop_tokens", stop_tokens, n_vocab))
        self._check_room(prompt)
        return self._generate(prompt, max_tokens, stops, should_stop)

    def _generate(
        self,
        prompt: list[int],
        max_tokens: int,
        stop_tokens: frozenset[int],
        should_stop: Callable[[int], bool] | None,
    ) -> Iterator[Token]:
        self._prepare(prompt)
        run = self._run = _Run(
            max_tokens=max_tokens,
            stop_tokens=stop_tokens,
            should_stop=should_stop,
            start=len(self._tokens) + len(prompt),
            start_position=self._sampler.position,
            gate_before=GateEvents() if self._gate is None else self._gate.events,
        )
        try:
            run.stats.resume()
            self._unsettled = True
            self._tokens.extend(prompt)
            yield from self._prefill(run, len(prompt))
            while run.finish_reason is None:
                yield from self._step(run)
        finally:
            if self._run is run:
                self._settle(run)
            run.stats.pause()

    def _prepare(self, prompt: list[int]) -> None:
        """Clean up after a generation that was not closed, and check that this one can start."""
        if self._unsettled and self._run is not None:
            self._settle(self._run)
        if self._cut:
            self._spread_cut()
        if not prompt:
            self._rewind(len(self._tokens) - 1)
        if self._lost is not None:
            raise MaglioError(self._lost)
        self._check_room(prompt)
        if self._source is not None:
            self._source.revive()

    def _check_room(self, prompt: list[int]) -> None:
        total, n_ctx = len(self._tokens) + len(prompt), self._session.n_ctx
        if prompt and total > n_ctx:
            raise ContextFullError(
                f"the prompt of {len(prompt)} tokens after {len(self._tokens)} committed ones "
                f"makes {total}, more than the context of {n_ctx}; shorten it, or start a session "
                "with a larger n_ctx"
            )

    def _prefill(self, run: _Run, n_prompt: int) -> Iterator[Token]:
        """Feed what the cache lacks of the stream, at least one token, and commit the next one.

        When only the last token is missing and no prompt was given there is nothing to do: a
        step begins exactly so.
        """
        self._sampler.accept(self._tokens[self._history_length :])
        missing = self._tokens[self._session.length :]
        if run.max_tokens == 0 or len(self._tokens) > self._session.n_ctx:
            run.finish_reason = "length"
            missing.pop()
        row = None
        if missing and (n_prompt > 0 or len(missing) > 1):
            self._intact = self._session.length
            begin = perf_counter()
            row = self._session.prefill(missing)
            run.stats.prefill_s = perf_counter() - begin
            self._intact = self._session.length
            run.stats.prompt_tokens = len(missing)
        self._tell_source(tried=0)
        if row is not None and run.finish_reason is None:
            yield from self._walk(run, self._tokens[-1:], row[None])

    def _step(self, run: _Run) -> Iterator[Token]:
        """One forward over the last committed token and a draft, and the tokens it commits."""
        fed = [self._tokens[-1], *self._draft(run)]
        self._intact = self._session.length
        before, begin = len(self._tokens), perf_counter()
        rows, seconds = self._timed_forward(fed)
        run.stats.forward_s += perf_counter() - begin
        self._intact = self._session.length
        yield from self._walk(run, fed, rows)
        if self._gate is not None and run.finish_reason is None:  # an end cuts a draft short
            committed = len(self._tokens) - before
            self._gate.record(rows=len(fed), committed=committed, seconds=seconds)
            run.stats.gate = self._gate.events.since(run.gate_before)

    def _timed_forward(self, fed: list[int]) -> tuple[Logits, float | None]:
        if self._clock is None:
            return self._session.forward(fed), None
        begin = self._clock()
        rows = self._session.forward(fed)
        return rows, self._clock() - begin

    def _budget(self, run: _Run) -> int:
        """How many draft tokens the next step may verify; 0 makes it a plain step.

        The one place that decides whether to draft, and how much.
        """
        room = self._session.n_ctx - self._session.length
        wanted = run.max_tokens - (len(self._tokens) - run.start)
        allowed = self._options.max_draft
        if self._gate is not None:
            allowed = self._gate.budget(
                min_draft=self._options.min_draft, max_draft=self._options.max_draft
            )
        return min(allowed, room - 1, wanted - 1)

    def _draft(self, run: _Run) -> list[int]:
        if self._source is None:
            return []
        limit = self._budget(run)
        if limit < self._options.min_draft:
            return []
        draft = self._source.suggest(self._view, limit)
        return draft if len(draft) >= self._options.min_draft else []

    def _walk(self, run: _Run, fed: list[int], rows: Logits) -> Iterator[Token]:
        """Commit tokens, one per row, as long as they are the ones the next row was computed for.

        ``rows[i]`` follows ``fed[i]``; ``fed[1:]`` is the draft. The cache is cut back before the
        last of them is yielded.
        """
        draft = fed[1:]
        run.stats.steps += 1
        run.stats.verify_steps += bool(draft)
        for index in range(len(rows)):
            token = self._commit(run, rows[index])
            drafted = index < len(draft)
            accepted = drafted and token == draft[index]
            label = "model"
            if drafted and self._source is not None:
                # A rejection spends the rest of the draft too.
                spent = 1 if accepted else len(draft) - index
                run.stats.draft(self._source.label, drafted=spent, accepted=int(accepted))
                label = self._source.label if accepted else label
            last = not accepted or run.finish_reason is not None
            if last:
                tried = index + 1 if accepted else len(draft)
                self._end_step(fed, rows, tried)
            run.stats.pause()
            yield Token(token, label)
            if self._run is not run:
                raise MaglioError("this generation was given up: the decoder has begun another")
            run.stats.resume()
            if last:
                return

    def _commit(self, run: _Run, row: Logits) -> int:
        token = self._sampler.sample(row)
        self._tokens.append(token)
        self._sampler.accept((token,))
        run.stats.committed += 1
        full = run.stats.committed == run.max_tokens or len(self._tokens) > self._session.n_ctx
        stopped = token in run.stop_tokens
        if run.should_stop is not None and run.should_stop(token):
            stopped = True
        if stopped or full:
            run.finish_reason = "stop" if stopped else "length"
        return token

    def _end_step(self, fed: list[int], rows: Logits, tried: int) -> None:
        self._rewind(len(self._tokens) - 1)
        if self._source is not None:
            self._source.observe_topk(fed, rows)
        self._tell_source(tried)

    def _tell_source(self, tried: int) -> None:
        """Deliver what was committed since the last time; at most once, even if interrupted."""
        if self._source is None or self._source.error is not None:
            return
        self._source.conclude(tried)
        begin, self._observed = self._observed, len(self._tokens)
        if begin < self._observed:
            self._source.observe(self._tokens[begin:])

    @property
    def _history_length(self) -> int:
        """How much of the stream is in the sampler's history."""
        return self._sampler.history_length - self._history_start

    def _settle(self, run: _Run) -> None:
        """Make the cache, the sampler and the source agree with the committed stream.

        Whatever was interrupted where, the stream itself is the truth, since it grows by one
        atomic append per token. Running this twice does no harm.
        """
        self._rewind(max(0, min(self._intact, len(self._tokens) - 1)))
        self._intact = self._session.length
        self._sampler.seek(run.start_position + max(0, len(self._tokens) - run.start))
        self._sampler.accept(self._tokens[self._history_length :])
        self._tell_source(tried=len(self._tokens) - self._observed)
        self._unsettled = False

    def _rewind(self, length: int) -> None:
        if self._session.length <= length:
            return
        if self._session.can_rewind:
            self._session.truncate(length)
        else:
            self._lost = (
                f"{type(self._session).__name__} holds {self._session.length} positions and cannot "
                f"go back to {length} (can_rewind is False), so this stream cannot go on; start a "
                "new session"
            )
