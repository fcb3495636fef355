"""Where messages come from: a person at a terminal, or lines of a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import platformdirs

FENCE = '"""'
"""A line that begins with it begins a message of several lines; it alone on a line ends them."""


class LineReader(Protocol):
    """Reads one message at a time."""

    interactive: bool

    def read(self) -> str:
        """Return the next message.

        Raises:
            EOFError: there is none.
            KeyboardInterrupt: Ctrl-C.
        """
        ...


class PipeReader:
    """A message per line, or per fenced block."""

    interactive = False

    def __init__(self) -> None:
        text = sys.stdin.buffer
        self._lines: Iterator[str] = (
            line.decode("utf-8", "surrogateescape").rstrip("\r\n") for line in text
        )

    def read(self) -> str:
        """Return the next message that is not empty."""
        for line in self._lines:
            if line.startswith(FENCE):
                return self._block(line[len(FENCE) :])
            if line.strip():
                return line
        raise EOFError

    def _block(self, first: str) -> str:
        lines = [first]
        while (line := next(self._lines, FENCE)) != FENCE:
            lines.append(line)
        return "\n".join(lines).strip("\n")


class TerminalReader:
    """An editable line with history; Alt-Enter, a fence, or pasting makes it several lines."""

    interactive = True

    def __init__(self) -> None:
        # Imported late: only people at a terminal wait for it.
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import FileHistory
        from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
        from prompt_toolkit.output.defaults import create_output

        keys = KeyBindings()

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.text.startswith(FENCE) and not buffer.text.endswith(f"\n{FENCE}"):
                buffer.insert_text("\n")
            else:
                buffer.validate_and_handle()

        self._session: PromptSession[str] = PromptSession(
            history=FileHistory(str(_history_file())),
            key_bindings=keys,
            multiline=True,
            prompt_continuation="  ",
            output=create_output(sys.stdout if sys.stdout.isatty() else sys.stderr),
        )

    def read(self) -> str:
        """Let a person type a message."""
        text = self._session.prompt("> ")
        if text.startswith(FENCE):
            text = text.removeprefix(FENCE).removesuffix(FENCE)
        return text.strip("\n")


def _history_file() -> Path:
    folder = platformdirs.user_data_path("maglio")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / "chat_history"
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    return path
