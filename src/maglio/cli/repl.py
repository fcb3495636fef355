"""The loop of ``maglio chat``: messages and commands in, answers out.

Boundary: what is done with an entry, with an answer, and with whatever goes wrong on the way: no
command and no answer ends the loop, and what was said is saved. Answers go to ``out``, everything
else to stderr.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TextIO

from maglio.chat import Conversation
from maglio.chat.turn import Answer
from maglio.cli.answer_writer import AnswerWriter, View, write_json
from maglio.cli.chat_commands import CHANGING, ChatCommands, QuitError
from maglio.cli.chat_settings import Settings
from maglio.cli.entry import Entry
from maglio.cli.interrupts import Interrupts
from maglio.cli.line_reader import LineReader
from maglio.cli.streams import OutputError, emit, note
from maglio.cli.terminal import summary
from maglio.errors import MaglioError


class Repl:
    """A conversation at a terminal or in a pipe.

    Args:
        chat: the conversation.
        reader: where entries come from.
        out: where answers go.
        view: how they are shown.
        settings: what ``/set`` changes.
        autosave: save here after each change.
        single_turn: leave after one answer.
    """

    def __init__(
        self,
        chat: Conversation,
        reader: LineReader,
        out: TextIO,
        view: View,
        *,
        settings: Settings,
        autosave: Path | None = None,
        single_turn: bool = False,
    ) -> None:
        self._chat = chat
        self._reader = reader
        self._out = out
        self._view = view
        self._autosave = autosave
        self._single_turn = single_turn
        self._failed = False
        self._ended = False
        self._interrupts = Interrupts()
        self._commands = ChatCommands(
            chat, view, settings=settings, answer=self._answer, home=autosave
        )

    def run(self, first: str | None = None) -> int:
        """Talk until the input ends; return the exit status, 1 if a line of a pipe failed.

        Args:
            first: a message to begin with.
        """
        waiting = None if first is None else Entry(first, verbatim=True)
        with self._interrupts:
            while not self._ended:
                self._step(waiting)
                waiting = None
        return int(self._failed and not self._reader.interactive)

    def _step(self, entry: Entry | None) -> None:
        """Take an entry, or the next one, unless Ctrl-C comes."""
        try:
            self._interrupts.arm()
            self._take_safely(entry)
            self._interrupts.disarm()
        except KeyboardInterrupt:
            if not self._reader.interactive:
                raise

    def _take_safely(self, entry: Entry | None) -> None:
        """Take an entry, or the next one."""
        try:
            entry = self._read() if entry is None else entry
            if entry is not None:
                self._take(entry)
        except QuitError:
            self._ended = True
        except BrokenPipeError:
            raise  # nobody listens any more
        except OutputError as error:
            if not self._reader.interactive:
                raise
            self._complain(str(error))
        except MaglioError as error:
            self._complain(str(error))
        except Exception as error:  # a fault of ours must not cost people their conversation
            self._complain(f"unexpected {type(error).__name__}: {error}; please report this")

    def _read(self) -> Entry | None:
        try:
            return self._reader.read()
        except EOFError:
            self._ended = True
        except OSError as error:  # the terminal is gone
            self._ended = True
            self._complain(f"cannot read what is said: {error.strerror or error}")
        return None

    def _take(self, entry: Entry) -> None:
        command = entry.command
        if command is None:
            self._ended = self._single_turn
            self._answer(self._chat.send(entry.message))
            return
        try:
            self._commands.run(*command)
        finally:
            if command[0] in CHANGING:
                self._save()

    def _answer(self, answer: Answer) -> None:
        dropped = self._chat.dropped
        interrupted = self._write(answer)
        turns = self._chat.turns
        if self._view.as_json:
            write_json(self._out, answer, interrupted=interrupted, dropped=dropped)
        if interrupted and not self._reader.interactive:
            raise KeyboardInterrupt
        if interrupted:
            note("(stopped)")
        elif answer.finish_reason == "length" and self._reader.interactive:
            note(f"({'max_tokens is reached' if self._chat.room else 'the context is full'})")
        if dropped:
            note(f"({dropped} of {len(turns)} turns are no longer in the context)")
        if self._view.stats:
            note(summary(answer.stats))

    def _write(self, answer: Answer) -> bool:
        """Write an answer as it comes, and save it; True when Ctrl-C ended it."""
        writer = AnswerWriter(self._out, self._view, thinking=answer.begins_thinking)
        interrupted = False
        shown = 0
        try:
            for token in answer:
                writer.write(token.text, token.source)
                shown += len(token.text)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            self._keep(answer)
        writer.write(answer.text[shown:], "model")
        writer.end()
        return interrupted

    def _keep(self, answer: Answer) -> None:
        """End an answer and save it, whatever happens meanwhile."""
        self._interrupts.disarm()
        try:
            answer.close()
        finally:
            self._save()

    def _save(self) -> None:
        if self._autosave is None:
            return
        try:
            self._chat.save(self._autosave)
        except MaglioError as error:
            self._complain(str(error))

    def _complain(self, message: str) -> None:
        self._failed = True
        note(f"maglio: {message}")
        if not self._view.as_json:
            return
        try:
            emit(self._out, json.dumps({"error": message}) + "\n")
        except OutputError:
            if not self._reader.interactive:
                raise
