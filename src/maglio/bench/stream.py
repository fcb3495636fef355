"""A recorded token stream: turns of ids, some with the candidates of their rows. No text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from maglio.bench.data import Dialogue, Message
from maglio.text import Tokenizer

TOP = 8
"""Candidates recorded per row."""

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Turn:
    """Consecutive tokens of one side.

    Attributes:
        tokens: int32 ``(n,)``.
        is_target: whether the model generates them; the others are given to it.
        candidates: int32 ``(n, m)``, best first: row ``i`` follows ``tokens[i]``. ``None`` when
            no model was at hand.
    """

    tokens: Ids
    is_target: bool
    candidates: Ids | None = None


@dataclass(frozen=True, slots=True)
class TokenStream:
    """One conversation.

    Attributes:
        group: what its results are reported under: a data set or one of its categories.
        turns: in order.
    """

    group: str
    turns: tuple[Turn, ...]


def encode_dialogue(group: str, dialogue: Dialogue, tokenizer: Tokenizer) -> TokenStream:
    """The turns of a conversation as tokens, each in the chat markup that the tokenizer has."""
    markup = _Markup(tokenizer)
    turns: list[Turn] = []
    for message in dialogue.messages:
        head, body, tail = markup.pieces(message)
        if message.role == "assistant":
            turns += [_turn(head, False), _turn(body, True), _turn(tail, False)]
        else:
            turns.append(_turn(head + body + tail, False))
    return TokenStream(group, tuple(turn for turn in turns if len(turn.tokens)))


def encode_prompt(messages: Sequence[Message], tokenizer: Tokenizer) -> list[int]:
    """The tokens of a prompt that a model is to answer."""
    markup = _Markup(tokenizer)
    ids = [tokenizer.bos_id] if tokenizer.add_bos and tokenizer.bos_id is not None else []
    for message in messages:
        ids += [token for piece in markup.pieces(message) for token in piece]
    return ids + markup.opening("assistant")


def _turn(tokens: list[int], is_target: bool) -> Turn:
    return Turn(np.array(tokens, dtype=np.int32), is_target)


class _Markup:
    """ChatML where the tokenizer has its control tokens, bare paragraphs where it has not."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._chat = len(self._control("<|im_start|>")) == 1

    def opening(self, role: str) -> list[int]:
        return self._control(f"<|im_start|>{role}\n") if self._chat else []

    def pieces(self, message: Message) -> tuple[list[int], list[int], list[int]]:
        """What comes before the text of a turn, the text, and what comes after."""
        body = self._tokenizer.encode(message.text, add_special=False)
        if not self._chat:
            return [], body, self._control("\n\n")
        # The model generates the end of its turn; the newline after it is given again.
        end, newline = self._control("<|im_end|>"), self._control("\n")
        if message.role == "assistant":
            return self.opening(message.role), body + end, newline
        return self.opening(message.role), body, end + newline

    def _control(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special=False, parse_special=True)
