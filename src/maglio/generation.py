"""A generation as people see it: tokens with their text, as they come, and the sum of it.

Boundary: joins a sequence, which knows no text, with its transcript, which knows no model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from maglio.checks import MAX_TOKEN_ID, check_int
from maglio.decode import FinishReason, GenerationStats, Token, TokenLogprob, run, total
from maglio.decode import Sequence as TokenSequence
from maglio.decode.constraint import Constraint
from maglio.economics.live_cost import LiveCost
from maglio.engine.base import Engine
from maglio.one_thread import OneThread, Steps, one_thread
from maglio.text import StopMatcher, Tokenizer, Transcript
from maglio.tokens import ANY_VOCABULARY, checked_tokens


@dataclass(frozen=True, slots=True)
class TextToken:
    """One generated token.

    Attributes:
        id: the token id.
        text: the text that became certain with this token. Empty while a character is incomplete
            or a stop string might be beginning; the pieces joined are the whole text.
        source: ``model``, or the name of the draft source that predicted the token.
        logprob: how probable it was; ``None`` if nobody asked.
    """

    id: int
    text: str
    source: str
    logprob: TokenLogprob | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """A finished generation.

    Attributes:
        tokens: ids of all generated tokens, a stop token included.
        text: their text, cut before the stop string if one ended it.
        finish_reason: ``stop`` (a stop token or a stop string) or ``length`` (``max_tokens``, or
            the context is full); ``None`` when it failed or was ended early.
        stats: counts and times.
        error: why it failed, where one generation of many does not end the others. What was
            generated before is in ``tokens`` and ``text``.
        logprobs: how probable each token was; empty if nobody asked.
    """

    tokens: tuple[int, ...]
    text: str
    finish_reason: FinishReason | None
    stats: GenerationStats
    error: Exception | None = None
    logprobs: tuple[TokenLogprob, ...] = ()

    @classmethod
    def failed(cls, error: Exception) -> Generation:
        """One that could not begin."""
        return cls((), "", None, total(()), error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Where a generation ends.

    Attributes:
        max_tokens: most tokens to generate; the context's end may come first.
        stop: it ends before the first of these texts. One that spells a control token ends it at
            that token. A text alone is one.
        stop_ids: ids that end it, besides the model's own.

    Raises:
        InvalidArgumentError: a field has a value that can never work.
    """

    max_tokens: int
    stop: Sequence[str] = ()
    stop_ids: Sequence[int] = ()

    def __post_init__(self) -> None:
        check_int("max_tokens", self.max_tokens, 0, MAX_TOKEN_ID)
        if isinstance(self.stop, str):
            object.__setattr__(self, "stop", (self.stop,))
        StopMatcher(self.stop)
        stop_ids = tuple(checked_tokens("stop_tokens", self.stop_ids, ANY_VOCABULARY))
        object.__setattr__(self, "stop_ids", stop_ids)

    def check(self, n_vocab: int) -> None:
        """Raise InvalidArgumentError if a token that ends it is outside the vocabulary."""
        checked_tokens("stop_tokens", self.stop_ids, n_vocab)

    def ids(self, tokenizer: Tokenizer) -> frozenset[int]:
        """All ids that end it."""
        control = tokenizer.control_tokens
        named = {control[text] for text in self.stop if text in control}
        return frozenset(self.stop_ids) | tokenizer.eog_ids | named


class Reading:
    """What was generated so far, as text. Follows one generation of a sequence.

    Args:
        sequence: the sequence; the generation is begun on it.
        tokenizer: the model's.
        prompt: token ids to generate after.
        ending: where to end.
        show_control: whether control tokens that do not end it are text.
        constraint: a new one, that says which tokens may come.
        logprobs: how many alternatives to list with the log-probability of each token; neither is
            kept when ``None``.

    Raises:
        InvalidArgumentError: an argument can never work.
        ContextFullError: the prompt does not fit the context.
    """

    def __init__(
        self,
        sequence: TokenSequence,
        tokenizer: Tokenizer,
        prompt: Sequence[int],
        ending: Ending,
        *,
        show_control: bool = False,
        constraint: Constraint | None = None,
        logprobs: int | None = None,
    ) -> None:
        stops = ending.ids(tokenizer)
        self.sequence = sequence
        self.transcript = Transcript(
            tokenizer, stop=ending.stop, stop_ids=stops, show_control=show_control
        )
        sequence.begin(
            prompt,
            max_tokens=ending.max_tokens,
            stops=stops,
            transcript=self.transcript,
            constraint=constraint,
            logprobs=logprobs,
        )
        self.ids: list[int] = []
        self._logprobs: list[TokenLogprob] = []
        self._start = sequence.length
        self._turn = sequence.turn
        self._end: tuple[FinishReason | None, GenerationStats] | None = None

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why it has ended; ``None`` while it goes on or when it was closed early."""
        return self.sequence.finish_reason if self._end is None else self._end[0]

    @property
    def stats(self) -> GenerationStats:
        """Counts and times so far."""
        return self.sequence.stats if self._end is None else self._end[1]

    def read(self, token: Token) -> TextToken:
        """Take a delivered token, and return it with its text."""
        text = self.transcript.piece(len(self.ids))
        if token.logprob is not None:
            self._logprobs.append(token.logprob)
        self.ids.append(token.id)
        if self.sequence.finish_reason is not None:
            text += self.transcript.flush()
        return TextToken(token.id, text, token.source, token.logprob)

    def close(self) -> None:
        """The generation ends here. Whatever was interrupted, ids and text agree from now on."""
        if self.sequence.turn is self._turn:  # later the sequence is about something else
            self.ids[:] = self.sequence.tokens[self._start :]
            self._end = self.sequence.finish_reason, self.sequence.stats
        transcript = self.transcript  # it may have read tokens that were not delivered
        transcript.truncate(min(transcript.length, len(self.ids)))
        for token in self.ids[transcript.length :]:
            transcript.push(token)
        transcript.flush()

    @property
    def text(self) -> str:
        """Text so far."""
        return self.transcript.text(len(self.ids))

    @property
    def kept(self) -> int:
        """How many tokens stay now that it has ended: all up to a stop token or a stop string."""
        return self.transcript.kept(len(self.text))

    def result(self, error: Exception | None = None) -> Generation:
        """Everything, as a value."""
        reason = None if error is not None else self.finish_reason
        logprobs = tuple(self._logprobs[: len(self.ids)])
        return Generation(tuple(self.ids), self.text, reason, self.stats, error, logprobs)


class Started(NamedTuple):
    """A generation that was begun, for whoever drives it.

    Attributes:
        reading: follows it.
        cost: what a forward costs, as its drafts count it; learns it.
        remember: to be called once when it has ended: later streams can then draft from it.
    """

    reading: Reading
    cost: LiveCost
    remember: Callable[[], None]


class Stream(Iterator[TextToken]):
    """Generated tokens as they come; ``text``, ``stats`` and ``finish_reason`` are kept current.

    Stop early by leaving the loop and calling :meth:`close`; what was generated stays.

    Args:
        engine: the engine of the sequence's cache.
        reading: the generation.
        cost: what a forward costs; learns it.
        progress: called with (tokens done, tokens in all) while the prompt is read.
        on_end: called once when the generation has ended or was closed.
    """

    def __init__(
        self,
        engine: Engine,
        reading: Reading,
        cost: LiveCost,
        *,
        progress: Callable[[int, int], None] | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        self._reading = reading
        self._on_end = on_end
        self._use = OneThread("this generation")
        tokens = run(engine, reading.sequence, cost, progress=progress)
        self._tokens = Steps("this generation", tokens)

    @one_thread
    def __next__(self) -> TextToken:
        try:
            token = next(self._tokens)
        except StopIteration:
            self.close()
            raise
        return self._reading.read(token)

    @one_thread
    def close(self) -> None:
        """End the generation here. Does nothing when it has ended by itself."""
        self._tokens.close()
        self._reading.close()
        if self._on_end is not None:
            on_end, self._on_end = self._on_end, None
            on_end()

    @property
    def tokens(self) -> tuple[int, ...]:
        """Ids so far."""
        return tuple(self._reading.ids)

    @property
    def text(self) -> str:
        """Text so far."""
        return self._reading.text

    @property
    def kept(self) -> int:
        """How many tokens stay now that it has ended: all up to a stop token or a stop string.

        A token that a stop string begins in does not count.
        """
        return self._reading.kept

    @property
    def finish_reason(self) -> FinishReason | None:
        """``stop``, ``length``, or ``None`` while it is going on or when it was closed early."""
        return self._reading.finish_reason

    @property
    def stats(self) -> GenerationStats:
        """Counts and times so far."""
        return self._reading.stats

    def result(self) -> Generation:
        """Run to the end and return everything."""
        for _ in self:
            pass
        return self._reading.result()
