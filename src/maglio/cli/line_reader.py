"""Where entries come from: a person at a terminal, or lines of a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

import platformdirs

from maglio.cli.entry import FENCE, Entry, entered, fenced, quoted
from maglio.cli.streams import note
from maglio.cli.text_options import without_bom
from maglio.errors import InvalidArgumentError

if TYPE_CHECKING:
    from prompt_toolkit.buffer import Buffer
    from prompt_toolkit.history import History


class LineReader(Protocol):
    """Reads one entry at a time."""

    interactive: bool

    def read(self) -> Entry:
        """Return the next entry that is not empty.

        Raises:
            EOFError: there is none.
            KeyboardInterrupt: Ctrl-C.
            InvalidArgumentError: what comes is not an entry.
        """
        ...


class PipeReader:
    """An entry per line, or per fenced block.

    Args:
        stream: where the lines come from.
    """

    interactive = False

    def __init__(self, stream: IO[bytes]) -> None:
        self._lines = _numbered_lines(stream)

    def read(self) -> Entry:
        """See :class:`LineReader`."""
        for number, line in self._lines:
            if line.startswith(FENCE):
                text = self._block(line, number)
                if text:
                    return Entry(text, verbatim=True)
            elif line.strip():
                return Entry(line)
        raise EOFError

    def _block(self, first: str, number: int) -> str:
        lines = [first]
        while (text := fenced(lines)) is None:
            following = next(self._lines, None)
            if following is None:
                raise InvalidArgumentError(
                    f"the message that begins in line {number} with {FENCE} has no end and is not "
                    f"sent; end it with a line of only {FENCE}"
                )
            lines.append(following[1])
        return text


def _numbered_lines(stream: IO[bytes]) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(stream, 1):
        data = without_bom(line) if number == 1 else line
        yield number, data.decode("utf-8", "surrogateescape").rstrip("\r\n")


class TerminalReader:
    """An editable line with history; Alt-Enter, a fence, or pasting makes it several lines."""

    interactive = True

    def __init__(self) -> None:
        # Imported late: only people at a terminal wait for it.
        from prompt_toolkit import PromptSession
        from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
        from prompt_toolkit.keys import Keys
        from prompt_toolkit.output.defaults import create_output

        self._pasted = False  # whether what is being typed begins with something pasted
        keys = KeyBindings()

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if self._is_open(buffer.text):
                buffer.insert_text("\n")
            else:
                self._quote(buffer)
                buffer.validate_and_handle()

        @keys.add(Keys.BracketedPaste)
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            self._pasted |= not buffer.document.text_before_cursor.strip()
            buffer.insert_text(event.data.replace("\r\n", "\n").replace("\r", "\n"))

        self._session: PromptSession[str] = PromptSession(
            history=_history(),
            key_bindings=keys,
            multiline=True,
            prompt_continuation="  ",
            output=create_output(sys.stdout if sys.stdout.isatty() else sys.stderr),
        )
        self._session.default_buffer.on_text_changed += self._on_text_changed

    def read(self) -> Entry:
        """Let a person type an entry."""
        while True:
            self._pasted = False
            text = self._session.prompt("> ")
            entry = Entry(text, verbatim=True) if self._pasted else entered(text)
            if entry.text.strip():
                return entry

    def _is_open(self, text: str) -> bool:
        return text.startswith(FENCE) and not self._pasted and fenced(text.split("\n")) is None

    def _quote(self, buffer: Buffer) -> None:
        """Make a pasted message one that is a message too when it is typed."""
        if self._pasted and (text := quoted(buffer.text)) != buffer.text:
            buffer.text = text
            self._pasted = False

    def _on_text_changed(self, buffer: Buffer) -> None:
        if not buffer.text:
            self._pasted = False


def _history() -> History:
    """What was typed before, on disk where that is possible."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    class Kept(FileHistory):
        """A file that may become unwritable, or damaged, at any time."""

        def load_history_strings(self) -> list[str]:
            with suppress(OSError):
                return list(super().load_history_strings())
            return []

        def store_string(self, string: str) -> None:
            with suppress(OSError):
                super().store_string(string.encode("utf-8", "replace").decode())

    try:
        return Kept(str(_history_file()))
    except OSError as error:
        reason = f"{error.strerror}: {error.filename}"
        note(f"maglio: what you type is not remembered after this chat ({reason})")
        return InMemoryHistory()


def _history_file() -> Path:
    folder = platformdirs.user_data_path("maglio")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / "chat_history"
    # Not to wait at a named pipe: opening one to write and to read does not.
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NONBLOCK, 0o600)
    try:
        if not path.is_file():
            raise OSError(0, "not a regular file", str(path))
    finally:
        os.close(descriptor)
    return path
