"""The loop of ``maglio chat``: messages and commands in, answers out.

Answers go to ``out``, everything else to stderr.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from maglio.chat import Conversation
from maglio.chat.turn import Answer
from maglio.cli.line_reader import LineReader
from maglio.cli.terminal import TokenWriter, details, summary
from maglio.cli.thinking import ThinkingSplitter
from maglio.decode import SamplingParams
from maglio.errors import InvalidArgumentError, MaglioError

HELP = """\
/help                 this
/system [TEXT]        show or set the system prompt
/reference [FILE]     draft from a file or folder too; without FILE list them
/forget               forget all references
/clear                start over; system prompt and references stay
/undo [N]             take back the last turn, or the last N
/retry                answer again
/save FILE, /load FILE
/stats                totals so far, by source
/spec [on|off]        speculation (what is said is the same)
/set [NAME VALUE]     a sampling parameter or max_tokens, such as temperature 0.7;
                      alone, what they are
/color on|off         colour text by source: plain model, cyan conversation, green reference,
                      yellow recycling (record policy)
/thinking on|off      show thinking blocks
/quit                 leave; Ctrl-D does too
Ctrl-C stops an answer and keeps what was said. Alt-Enter makes a new line; so does Enter in a
message that begins with three quotation marks, until a line of only three. // begins a message
with a /."""


_SETTINGS = {
    field.name: field.type
    for field in dataclasses.fields(SamplingParams)
    if field.name != "logit_bias"
}
"""Sampling parameters that /set can change, and their types."""


class _QuitError(Exception):
    """The user wants to leave."""


class Repl:
    """A conversation at a terminal or in a pipe.

    Args:
        chat: the conversation.
        reader: where messages come from.
        out: where answers go.
        color: whether to colour answers by source.
        show_thinking: whether to show thinking blocks.
        stats: whether to write a line of statistics after each turn.
        as_json: write one JSON object per answer instead of text.
        autosave: save here after each turn.
    """

    def __init__(
        self,
        chat: Conversation,
        reader: LineReader,
        out: TextIO,
        *,
        color: bool,
        show_thinking: bool = True,
        stats: bool = False,
        as_json: bool = False,
        autosave: Path | None = None,
    ) -> None:
        self._chat = chat
        self._reader = reader
        self._out = out
        self._color = color
        self._show_thinking = show_thinking
        self._stats = stats
        self._as_json = as_json
        self._autosave = autosave
        self._failed = False
        self._commands: dict[str, Callable[[str], None]] = {
            "help": lambda _: self._note(HELP),
            "system": self._system,
            "reference": self._reference,
            "forget": self._forget,
            "clear": self._clear,
            "undo": self._undo,
            "retry": lambda _: self._answer(self._chat.retry()),
            "save": self._save,
            "load": self._load,
            "stats": self._show_stats,
            "spec": self._spec,
            "set": self._set,
            "color": self._set_color,
            "thinking": self._set_thinking,
            "quit": self._quit,
        }

    def run(self) -> int:
        """Talk until the input ends; return the exit status, 1 if a line of a pipe failed."""
        while True:
            try:
                line = self._reader.read()
            except EOFError:
                break
            except KeyboardInterrupt:
                if not self._reader.interactive:
                    raise
                continue
            try:
                self._take(line)
            except _QuitError:
                break
            except MaglioError as error:
                self._failed = True
                self._complain(str(error))
        return int(self._failed and not self._reader.interactive)

    def _take(self, line: str) -> None:
        if line.startswith("/") and not line.startswith("//"):
            name, _, argument = line[1:].partition(" ")
            command = self._commands.get(name)
            if command is None:
                raise InvalidArgumentError(f"there is no command /{name}; /help lists them")
            command(argument.strip())
        elif line.strip():
            self._answer(self._chat.send(line.removeprefix("/") if line[0] == "/" else line))

    def _answer(self, answer: Answer) -> None:
        dropped = self._chat.dropped
        interrupted = self._write(answer)
        turns = self._chat.turns
        if self._as_json:
            self._print_json(answer, interrupted)
        if interrupted and self._reader.interactive:
            self._note("(stopped)")
        elif answer.finish_reason == "length" and self._reader.interactive:
            reason = "the context is full" if not self._chat.room else "max_tokens is reached"
            self._note(f"({reason})")
        if dropped:
            self._note(f"({dropped} of {len(turns)} turns are no longer in the context)")
        if self._stats:
            self._note(summary(answer.stats))
        if self._autosave is not None:
            self._chat.save(self._autosave)

    def _write(self, answer: Answer) -> bool:
        """Write an answer as it comes; True when Ctrl-C ended it."""
        writer = _AnswerWriter(self._out, color=self._color, thinking=answer.begins_thinking)
        writer.muted = self._as_json
        writer.show_thinking = self._show_thinking
        interrupted = False
        shown = 0
        try:
            for token in answer:
                writer.write(token.text, token.source)
                shown += len(token.text)
        except KeyboardInterrupt:
            interrupted = True
        answer.close()
        writer.write(answer.text[shown:], "model")
        writer.end()
        return interrupted

    def _print_json(self, answer: Answer, interrupted: bool) -> None:
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
            "dropped_turns": self._chat.dropped,
        }
        print(json.dumps(document), file=self._out, flush=True)

    # --- commands --------------------------------------------------------------------------------

    def _system(self, text: str) -> None:
        if text:
            self._chat.system = text
        else:
            self._note(self._chat.system or "(no system prompt)")

    def _reference(self, name: str) -> None:
        if name:
            self._chat.add_reference(Path(name).expanduser())
        if not self._chat.references:
            self._note("(no references)")
        for reference in self._chat.references:
            self._note(str(reference) if isinstance(reference, Path) else "(text)")

    def _forget(self, _: str) -> None:
        self._chat.clear_references()
        self._note("(no references)")

    def _clear(self, _: str) -> None:
        self._chat.clear()
        self._note("(a new conversation)")

    def _undo(self, count: str) -> None:
        for turn in self._chat.undo(_whole("undo", count or "1")):
            self._note(f"took back: {turn.user:.60}")

    def _save(self, name: str) -> None:
        path = self._path(name)
        self._chat.save(path)
        self._note(f"saved to {path}")

    def _load(self, name: str) -> None:
        path = self._path(name)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self._chat.load(path)
        for warning in caught:
            self._complain(str(warning.message))
        count = len(self._chat.turns)
        self._note(f"loaded {count} turn{'' if count == 1 else 's'}")

    def _path(self, name: str) -> Path:
        if not name and self._autosave is None:
            raise InvalidArgumentError("name a file, such as /save talk.json")
        return Path(name).expanduser() if name else self._autosave or Path()

    def _show_stats(self, _: str) -> None:
        stats = self._chat.stats
        used = len(self._chat.tokens)
        self._note(f"{summary(stats)}\n{details(stats)}\ncontext {used} tokens, room for ", end="")
        self._note(str(self._chat.room))

    def _spec(self, choice: str) -> None:
        if choice:
            self._chat.speculation = _switch("spec", choice)
        self._note(f"speculation is {'off' if self._chat.speculation is False else 'on'}")

    def _set(self, setting: str) -> None:
        name, _, value = setting.replace("=", " ").partition(" ")
        value = value.strip()
        name = {"temp": "temperature"}.get(name, name)
        if not name:
            self._show_settings()
            return
        if name == "max_tokens":
            self._chat.max_tokens = _whole(name, value)
            self._note(f"{name} {self._chat.max_tokens}")
            return
        if name not in _SETTINGS:
            raise InvalidArgumentError(
                f"/set {name}: can be max_tokens or one of {', '.join(_SETTINGS)}"
            )
        try:
            number = int(value) if _SETTINGS[name] == "int" else float(value)
        except ValueError:
            raise InvalidArgumentError(f"/set {name}: {value!r} is no number") from None
        changes: dict[str, Any] = {name: number}
        self._chat.sampling = dataclasses.replace(self._chat.sampling, **changes)
        self._note(f"{name} {number}")

    def _show_settings(self) -> None:
        self._note(f"max_tokens {self._chat.max_tokens}")
        for name in _SETTINGS:
            self._note(f"{name} {getattr(self._chat.sampling, name)}")

    def _set_color(self, choice: str) -> None:
        self._color = _switch("color", choice)

    def _set_thinking(self, choice: str) -> None:
        self._show_thinking = _switch("thinking", choice)

    def _quit(self, _: str) -> None:
        raise _QuitError

    def _complain(self, message: str) -> None:
        if self._as_json:
            print(json.dumps({"error": message}), file=self._out, flush=True)
        self._note(f"maglio: {message}")

    @staticmethod
    def _note(message: str, end: str = "\n") -> None:
        with contextlib.suppress(BrokenPipeError):
            print(message, end=end, file=sys.stderr, flush=True)


class _AnswerWriter:
    """Writes an answer, its thinking dimmed or not at all."""

    def __init__(self, out: TextIO, *, color: bool, thinking: bool) -> None:
        self._writer = TokenWriter(out, color=color)
        self._splitter = ThinkingSplitter(thinking=thinking)
        self._last = "\n"
        self.muted = False
        self.show_thinking = True

    def write(self, text: str, source: str) -> None:
        if not self.muted:
            for piece, thinking in self._splitter.push(text):
                self._piece(piece, source, thinking)

    def end(self) -> None:
        """End the last line."""
        for piece, thinking in self._splitter.flush():
            self._piece(piece, "model", thinking)
        if not self.muted and self._last != "\n":
            self._writer.write("\n", "model")

    def _piece(self, piece: str, source: str, thinking: bool) -> None:
        if thinking and not self.show_thinking:
            return
        if not thinking and self._last == "\n" and self._hides_blank(piece):
            return
        self._writer.write(piece, "thinking" if thinking else source)
        self._last = piece[-1]

    def _hides_blank(self, piece: str) -> bool:
        return not self.show_thinking and not piece.strip()


def _switch(name: str, choice: str) -> bool:
    if choice not in ("on", "off"):
        raise InvalidArgumentError(f"/{name} takes on or off")
    return choice == "on"


def _whole(name: str, value: str) -> int:
    if not value.isascii() or not value.isdigit():
        raise InvalidArgumentError(f"{name} is {value!r}, must be a whole number from 0 on")
    return int(value)
