"""What a person or a pipe enters in a chat: a message or a command, and fences around messages.

Boundary: text only. A fence is three quotation marks at the beginning of a line; what stands
between two of them is a message to the letter, whatever it begins with. So is what is pasted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

FENCE = '"""'

_COMMAND = re.compile(r"/([A-Za-z]+)(?:\s+(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Entry:
    """What was entered.

    Attributes:
        text: as it was entered, without fences.
        verbatim: whether it is a message whatever it begins with, being fenced or pasted.
    """

    text: str
    verbatim: bool = False

    @property
    def command(self) -> tuple[str, str] | None:
        """The name and the argument of a command: ``/`` and letters; ``None`` for a message.

        ``/usr/bin`` and ``/* text */`` are messages.
        """
        found = None if self.verbatim else _COMMAND.fullmatch(self.text.strip())
        return None if found is None else (found[1], found[2] or "")

    @property
    def message(self) -> str:
        """What is said. A second ``/`` at the beginning is there to tell it from a command."""
        doubled = not self.verbatim and self.text.startswith("//")
        return self.text[1:] if doubled and Entry(self.text[1:]).command else self.text


def fenced(lines: Sequence[str]) -> str | None:
    """What is in the block that ``lines`` begin, the first of which begins with a fence.

    ``None`` while the block is open. It ends with a fence alone on a line, or in its first line.
    """
    first = lines[0][len(FENCE) :]
    if len(lines) == 1:
        inner = first.rstrip()
        return inner.removesuffix(FENCE) if inner.endswith(FENCE) else None
    if lines[-1].rstrip() != FENCE:
        return None
    return "\n".join([first] * bool(first.strip()) + list(lines[1:-1]))


def entered(text: str) -> Entry:
    """What was typed, in one line or several."""
    if text.startswith(FENCE):
        return Entry(fenced(text.split("\n")) or "", verbatim=True)
    return Entry(text.strip("\n"))


def quoted(message: str) -> str:
    """What to type for this message: itself, with a second ``/``, or in a fence.

    So a message that was pasted, and that is brought back from what was typed before, is never
    taken for a command. Newlines around it may get lost.
    """
    for text in (message, f"/{message}", f"{FENCE}\n{message}\n{FENCE}"):
        entry = entered(text)
        if entry.command is None and entry.message.strip("\n") == message.strip("\n"):
            return text
    return message
