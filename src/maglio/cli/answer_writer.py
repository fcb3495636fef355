"""An answer of a chat as it is written: text as it comes, thinking dimmed or not at all, or JSON.

Boundary: from tokens to a stream. It knows no commands and no conversation.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TextIO

from maglio.chat.turn import Answer
from maglio.cli.streams import emit
from maglio.cli.terminal import TokenWriter
from maglio.cli.thinking import ThinkingSplitter


@dataclass(slots=True, kw_only=True)
class View:
    """How answers are shown; commands may change it.

    Attributes:
        color: whether to colour answers by source.
        thinking: whether to show thinking blocks.
        stats: whether to write a line of statistics after each turn.
        as_json: whether to write one JSON object per answer instead of text.
    """

    color: bool
    thinking: bool = True
    stats: bool = False
    as_json: bool = False


class AnswerWriter:
    """Writes one answer.

    Args:
        out: where to.
        view: how.
        thinking: whether the answer begins inside a thinking block.
    """

    def __init__(self, out: TextIO, view: View, *, thinking: bool) -> None:
        self._writer = TokenWriter(out, color=view.color)
        self._splitter = ThinkingSplitter(thinking=thinking)
        self._last = "\n"
        self._muted = view.as_json
        self._show_thinking = view.thinking

    def write(self, text: str, source: str) -> None:
        """Write more of it, which ``source`` predicted."""
        if not self._muted:
            for piece, thinking in self._splitter.push(text):
                self._piece(piece, source, thinking)

    def end(self) -> None:
        """End the last line."""
        for piece, thinking in self._splitter.flush():
            self._piece(piece, "model", thinking)
        if not self._muted and self._last != "\n":
            self._writer.write("\n", "model")

    def _piece(self, piece: str, source: str, thinking: bool) -> None:
        if thinking and not self._show_thinking:
            return
        if not thinking and self._last == "\n" and self._hides_blank(piece):
            return
        self._writer.write(piece, "thinking" if thinking else source)
        self._last = piece[-1]

    def _hides_blank(self, piece: str) -> bool:
        return not self._show_thinking and not piece.strip()


def write_json(out: TextIO, answer: Answer, *, interrupted: bool, dropped: int) -> None:
    """Write one answer as a JSON object.

    Args:
        out: where to.
        answer: the answer, ended.
        interrupted: whether Ctrl-C ended it.
        dropped: how many turns the model does not see any more.
    """
    stats = answer.stats
    document = {
        "answer": answer.text,
        "finish_reason": "interrupted" if interrupted else answer.finish_reason,
        "tokens": list(answer.tokens),
        "prompt_tokens": stats.prompt_tokens,
        "generated_tokens": stats.committed,
        "drafted": stats.drafted,
        "accepted": stats.accepted,
        "tokens_per_step": stats.tokens_per_step,
        "tokens_per_s": stats.tokens_per_s,
        "dropped_turns": dropped,
    }
    emit(out, json.dumps(document) + "\n")
