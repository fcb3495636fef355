"""One turn of a conversation: the answer as it comes, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from maglio.decode import FinishReason, GenerationStats
from maglio.generation import Stream, TextToken
from maglio.one_thread import OneThread, one_thread

TurnEnd = FinishReason | Literal["interrupted"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange.

    Attributes:
        user: what was said to the model.
        answer: what it said.
        tokens: ids of the answer, as generated; without a stop token or what spells a stop string.
        finish_reason: ``stop``; ``length`` (``max_tokens``, or the context is full); or
            ``interrupted``.
        stats: counts and times; ``None`` in a conversation that was loaded.
    """

    user: str
    answer: str
    tokens: tuple[int, ...]
    finish_reason: TurnEnd
    stats: GenerationStats | None = None


class Answer(Iterator[TextToken]):
    """An answer as it comes: iterate for its tokens, :meth:`close` to end it early.

    ``begins_thinking`` says whether the prompt has opened a thinking block; ``use`` is held while a
    thread uses the conversation.

    It becomes a turn of its conversation when it ends, is closed, or when the conversation is used
    again.
    """

    def __init__(
        self,
        stream: Stream,
        finish: Callable[[Answer], None],
        *,
        begins_thinking: bool,
        use: OneThread,
    ) -> None:
        self._use = use
        self.begins_thinking = begins_thinking
        self._stream = stream
        self._finish = finish
        self._finished = False

    @one_thread
    def __next__(self) -> TextToken:
        try:
            return next(self._stream)
        except StopIteration:
            self.close()
            raise

    @one_thread
    def close(self) -> None:
        """End the answer here; what was said stays. Does nothing when it has ended."""
        if not self._finished:
            self._stream.close()
            self._finish(self)
            self._finished = True

    @property
    def text(self) -> str:
        """Text so far; once it has ended, that of the turn."""
        return self._stream.text

    @property
    def tokens(self) -> tuple[int, ...]:
        """Ids so far, a stop token included."""
        return self._stream.tokens

    @property
    def finish_reason(self) -> FinishReason | None:
        """``stop``, ``length``, or ``None`` while it goes on or when it was closed early."""
        return self._stream.finish_reason

    @property
    def stats(self) -> GenerationStats:
        """Counts and times so far."""
        return self._stream.stats

    @property
    def stream(self) -> Stream:
        """The generation behind it."""
        return self._stream

    def result(self) -> str:
        """Run to the end and return the text."""
        for _ in self:
            pass
        return self.text
