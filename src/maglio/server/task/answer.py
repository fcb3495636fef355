"""One choice of an answer: generated tokens in, neutral deltas out.

Boundary: knows what text belongs to which token. What text is thinking, an answer or a call, the
reader says.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Sequence

from maglio import calls
from maglio.calls import AnswerReader
from maglio.generation import Generation, TextToken
from maglio.server.task.delta import (
    CallArguments,
    CallBegan,
    ChatDelta,
    ContentText,
    Finished,
    ReasoningText,
    Sourced,
)
from maglio.server.telemetry.usage import Usage


class Answer:
    """Follows one choice.

    Args:
        index: its number.
        reader: tells its text apart.
        ends: tokens that end it and are not part of its text.
    """

    def __init__(self, index: int, reader: AnswerReader, ends: Collection[int]) -> None:
        self.index = index
        self._reader = reader
        self._ends = ends
        self._pending: list[TextToken] = []  # whose text the reader has not told yet
        self._n_tokens = 0
        self._n_reasoning = 0
        self._n_calls = 0

    def push(self, tokens: Iterable[TextToken]) -> list[ChatDelta]:
        """Read on."""
        deltas: list[ChatDelta] = []
        for token in tokens:
            self._n_tokens += 1
            if token.id not in self._ends:
                self._pending.append(token)
            deltas += map(self._told, self._reader.push(token.text))
        return merged(deltas)

    def finish(
        self, generation: Generation, *, prompt: int, cached: int, stop_text: str | None
    ) -> list[ChatDelta]:
        """The generation has ended: what was held back, and the end.

        Args:
            generation: all of it.
            prompt: tokens of the prompt,
            cached: and how many of them were computed before.
            stop_text: the stop text that ended it, if one did.
        """
        rest = merged(list(map(self._told, self._reader.finish())))
        usage = Usage.of(
            generation.stats,
            prompt=prompt,
            cached=cached,
            tokens=len(generation.tokens),
            reasoning=self._n_reasoning,
        )
        reason = generation.finish_reason or "stop"
        if reason == "stop" and self._n_calls > len(self._reader.failed):
            return [*rest, Finished(self.index, "tool_calls", usage, stop_text)]
        return [*rest, Finished(self.index, reason, usage, stop_text)]

    def _told(self, piece: calls.Delta) -> ChatDelta:
        if isinstance(piece, calls.ContentText):
            tokens = self._take(piece.text)
            logprobs = tuple(token.logprob for token in tokens if token.logprob is not None)
            return ContentText(self.index, piece.text, sourced(piece.text, tokens), logprobs)
        if isinstance(piece, calls.ReasoningText):
            tokens = self._take(piece.text)
            self._n_reasoning = self._n_tokens
            return ReasoningText(self.index, piece.text, sourced(piece.text, tokens))
        self._pending.clear()
        if isinstance(piece, calls.CallBegan):
            self._n_calls += 1
            name = f"call_{secrets.token_hex(12)}"
            return CallBegan(self.index, piece.index, name, piece.name)
        return CallArguments(self.index, piece.index, piece.text)

    def _take(self, text: str) -> list[TextToken]:
        """The tokens that ``text`` is from, of those that were not told yet; forgets the others.

        They are the last ones: what comes before has marked where the text begins.
        """
        tokens, self._pending = self._pending, []
        first, length = len(tokens), 0
        while first > 0 and (length < len(text) or not tokens[first - 1].text):
            first -= 1
            length += len(tokens[first].text)
        return tokens[first:]


def sourced(text: str, tokens: Sequence[TextToken]) -> tuple[Sourced, ...]:
    """``text`` in the pieces that tokens gave, from its end on."""
    pieces: list[Sourced] = []
    end = len(text)
    for number, token in enumerate(reversed(tokens)):
        begin = 0 if number == len(tokens) - 1 else max(0, end - len(token.text))
        if begin < end:
            pieces.append(Sourced(text[begin:end], token.source))
        end = begin
    if end > 0:
        pieces.append(Sourced(text[:end], "model"))
    return tuple(reversed(pieces))


def merged(deltas: Sequence[ChatDelta]) -> list[ChatDelta]:
    """The same in as few deltas as possible."""
    whole: list[ChatDelta] = []
    for delta in deltas:
        joined = _joined(whole[-1], delta) if whole else None
        if joined is None:
            whole.append(delta)
        else:
            whole[-1] = joined
    return whole


def _joined(one: ChatDelta, other: ChatDelta) -> ChatDelta | None:
    if isinstance(one, ContentText) and isinstance(other, ContentText):
        return ContentText(
            one.index,
            one.text + other.text,
            one.sources + other.sources,
            one.logprobs + other.logprobs,
        )
    if isinstance(one, ReasoningText) and isinstance(other, ReasoningText):
        return ReasoningText(one.index, one.text + other.text, one.sources + other.sources)
    if not isinstance(one, CallArguments) or not isinstance(other, CallArguments):
        return None
    same = one.call == other.call
    return CallArguments(one.index, one.call, one.text + other.text) if same else None
