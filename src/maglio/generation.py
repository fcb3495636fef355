"""A generation as people see it: tokens with their text, as they come, and the sum of it.

Joins the decoder, which knows no text, with the detokenizer and the stop strings, which know no
model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from maglio.decode import FinishReason, GenerationStats, SpeculativeDecoder, Token
from maglio.text import Detokenizer, StopMatcher, Tokenizer


@dataclass(frozen=True, slots=True)
class TextToken:
    """One generated token.

    Attributes:
        id: the token id.
        text: the text that became certain with this token. Empty while a character is incomplete
            or a stop string might be beginning; the pieces joined are the whole text.
        source: ``model``, or the name of the draft source that predicted the token.
    """

    id: int
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Generation:
    """A finished generation.

    Attributes:
        tokens: ids of all generated tokens, a stop token included.
        text: their text, cut before the stop string if one ended it.
        finish_reason: ``stop`` or ``length``.
        stats: counts and times.
    """

    tokens: tuple[int, ...]
    text: str
    finish_reason: FinishReason | None
    stats: GenerationStats


class Stream(Iterator[TextToken]):
    """Generated tokens as they come; ``text``, ``stats`` and ``finish_reason`` are kept current.

    Stop early by leaving the loop and calling :meth:`close`; what was generated stays.
    """

    def __init__(
        self,
        decoder: SpeculativeDecoder,
        tokenizer: Tokenizer,
        prompt: Sequence[int],
        *,
        max_tokens: int,
        stop: Sequence[str],
        stop_tokens: Sequence[int],
    ) -> None:
        self._decoder = decoder
        self._detokenizer = Detokenizer(tokenizer, continues=True)
        self._matcher = StopMatcher(stop)
        self._stops = frozenset(stop_tokens) | tokenizer.eog_ids
        self._can_cut = len(stop) > 0
        self._length = 0  # of the text, before any stop string is cut off
        self._ends: list[int | None] = []  # where each token's text ends, if not in a character
        self._settled = 0
        self._fresh = ""
        self._pieces: list[str] = []
        self._ids: list[int] = []
        self._flushed = False
        self._tokens = decoder.generate(
            prompt,
            max_tokens=max_tokens,
            stop_tokens=self._stops,
            should_stop=self._read,
        )

    def __next__(self) -> TextToken:
        token: Token = next(self._tokens)
        self._ids.append(token.id)
        text, self._fresh = self._fresh, ""
        if self._decoder.finish_reason is not None:
            text += self._flush()
        self._pieces.append(text)
        return TextToken(token.id, text, token.source)

    def close(self) -> None:
        """End the generation here. Does nothing when it has ended by itself."""
        close = getattr(self._tokens, "close", None)
        if close is not None:
            close()
        self._pieces.append(self._fresh + self._flush())
        self._fresh = ""

    @property
    def tokens(self) -> tuple[int, ...]:
        """Ids so far."""
        return tuple(self._ids)

    @property
    def text(self) -> str:
        """Text so far."""
        return "".join(self._pieces)

    @property
    def settled(self) -> int:
        """How many of the tokens are sure to stay: no stop can reach back to them."""
        return self._settled

    @property
    def kept(self) -> int:
        """How many tokens stay now that it has ended: all up to a stop token or a stop string.

        A token that a stop string begins in does not count.
        """
        if self._matcher.stopped:
            limit = len(self.text)
            fits = [i for i, end in enumerate(self._ends) if end is not None and end <= limit]
            return fits[-1] + 1 if fits else 0
        return len(self._ends)

    @property
    def finish_reason(self) -> FinishReason | None:
        """``stop``, ``length``, or ``None`` while it is going on or when it was closed early."""
        return self._decoder.finish_reason

    @property
    def stats(self) -> GenerationStats:
        """Counts and times so far."""
        return self._decoder.stats

    def result(self) -> Generation:
        """Run to the end and return everything."""
        for _ in self:
            pass
        return Generation(self.tokens, self.text, self.finish_reason, self.stats)

    def _read(self, token: int) -> bool:
        """Take the text of a committed token; True when it completes a stop string."""
        piece = self._detokenizer.push(token)
        text, stopped = self._matcher.push(piece)
        self._fresh += text
        if token not in self._stops:
            pending = self._detokenizer.pending
            self._length += len(piece)
            self._ends.append(None if pending else self._length)
            if not self._can_cut or not (stopped or pending or self._matcher.holding):
                self._settled = len(self._ends)
        return stopped

    def _flush(self) -> str:
        if self._flushed:
            return ""
        self._flushed = True
        text, stopped = self._matcher.push(self._detokenizer.flush())
        return text if stopped else text + self._matcher.flush()
