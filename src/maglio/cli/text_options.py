"""Texts that people give on the command line: prompts, stop strings, and how they are read.

Boundary: from options, files and standard input to text. What the text is for is the command's
business.
"""

from __future__ import annotations

import codecs
import re
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated

import typer

from maglio.errors import InvalidArgumentError
from maglio.files import read_bounded

MAX_BYTES = 1 << 28
"""Longest text that is read: a device may have no end."""

_ESCAPE = re.compile(rb"""\\(x[0-9a-fA-F]{1,2}|[nrt'"\\])""")
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"'": b"'", b'"': b'"', b"\\": b"\\"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions:
    """What is said first, where to end, and whether ``\\n`` is a new line in them."""

    prompt: Annotated[
        str | None,
        typer.Option(
            "--prompt",
            "-p",
            help="Text to continue, or the first message of a chat; '-' reads stdin.",
            show_default=False,
        ),
    ] = None
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            "-f",
            help="Read the prompt from a file, less one newline at its end; '-' reads stdin.",
            show_default=False,
        ),
    ] = None
    binary_file: Annotated[
        Path | None,
        typer.Option(
            "--binary-file",
            "-bf",
            help="Read the prompt from a file, as it is to the last byte.",
            show_default=False,
        ),
    ] = None
    stop: Annotated[
        list[str] | None,
        typer.Option(
            "--stop",
            "--reverse-prompt",
            "-r",
            help="End before this text. Repeatable.",
            show_default=False,
        ),
    ] = None
    escape: Annotated[
        bool,
        typer.Option(
            "--escape/--no-escape",
            "-e",
            help=r"Read \n, \t, \xE9 and the like in --prompt, --system and --stop.",
        ),
    ] = True

    @property
    def stops(self) -> tuple[str, ...]:
        """The texts to end before."""
        return tuple(self.unescaped(text) for text in self.stop or ())

    def unescaped(self, text: str) -> str:
        """``text`` from the command line, escape sequences read as asked for."""
        return unescape(text) if self.escape else text

    def first_text(self) -> str | None:
        """The prompt, wherever it comes from; ``None`` if there is none.

        Raises:
            InvalidArgumentError: it is given twice, or cannot be read.
        """
        ways = (self.prompt, self.file, self.binary_file)
        if sum(way is not None for way in ways) > 1:
            raise InvalidArgumentError(
                "give the prompt with one of --prompt, --file, --binary-file"
            )
        if self.binary_file is not None:
            return read_bytes(self.binary_file).decode("utf-8", "surrogateescape")
        if self.file is not None:
            return _text(read_bytes(self.file))
        if self.prompt == "-":
            return _text(read_bytes(Path("-")))
        return None if self.prompt is None else self.unescaped(self.prompt)


def unescape(text: str) -> str:
    """Read escape sequences as llama.cpp does; others stay as they are."""

    def read(found: re.Match[bytes]) -> bytes:
        name = found[1]
        return bytes([int(name[1:], 16)]) if name[:1] == b"x" else _ESCAPED[name]

    data = text.encode("utf-8", "surrogateescape")
    return _ESCAPE.sub(read, data).decode("utf-8", "surrogateescape")


def read_bytes(file: Path) -> bytes:
    """What is in a file or a pipe; ``-`` is standard input.

    Raises:
        InvalidArgumentError: it cannot be read.
    """
    name = "standard input" if str(file) == "-" else str(file)
    try:
        with _opened(file) as opened:
            return read_bounded(opened, MAX_BYTES)
    except InvalidArgumentError:
        raise
    except (OSError, ValueError) as error:  # the latter for a NUL character
        reason = getattr(error, "strerror", None) or error
        raise InvalidArgumentError(f"cannot read {name}: {reason}") from error


def _opened(file: Path) -> AbstractContextManager[IO[bytes]]:
    return nullcontext(standard_input()) if str(file) == "-" else file.open("rb")


def standard_input() -> IO[bytes]:
    """Standard input.

    Raises:
        InvalidArgumentError: it is closed.
    """
    if sys.stdin is None:
        raise InvalidArgumentError("cannot read standard input: it is closed")
    return sys.stdin.buffer


def without_bom(data: bytes) -> bytes:
    """A byte order mark says how a file is encoded and is not part of its text."""
    return data.removeprefix(codecs.BOM_UTF8)


def _text(data: bytes) -> str:
    return without_bom(data).removesuffix(b"\n").decode("utf-8", "surrogateescape")
