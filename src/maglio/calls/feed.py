"""Text that comes in pieces, for readers that are written as if it were all there.

Boundary: knows no format. A reader is a generator; where it needs text that has not come yet, it
yields, and goes on when there is more. So what it reads cannot depend on how the text was cut.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

T = TypeVar("T")
Waiting = Generator[None, None, T]
"""A reader that returns a ``T`` once there is enough text."""


class MalformedError(Exception):
    """The text is not what the format asks for; never leaves :mod:`maglio.calls`."""


class Feed:
    """The text so far, and a place in it.

    Attributes:
        at: the place, in characters from the beginning of what is kept.
        closed: whether no more will come.
    """

    def __init__(self) -> None:
        self._text = ""
        self.at = 0
        self.closed = False

    def push(self, text: str) -> None:
        """More text has come."""
        self._text += text

    def since(self, place: int) -> str:
        """The text from an earlier place to here."""
        return self._text[place : self.at]

    def forget(self) -> None:
        """Drop what is before the place, which becomes 0."""
        self._text = self._text[self.at :]
        self.at = 0

    def take(self, n: int) -> str:
        """Read up to ``n`` characters of those that are there."""
        text = self._text[self.at : self.at + n]
        self.at += len(text)
        return text

    def take_all(self) -> str:
        """Read all that is there."""
        return self.take(len(self._text))

    def starts(self, text: str) -> Waiting[bool]:
        """Whether ``text`` comes next; reads nothing."""
        while True:
            have = self._text[self.at : self.at + len(text)]
            if len(have) == len(text) or self.closed or not text.startswith(have):
                return have == text
            yield

    def next(self) -> Waiting[str]:
        """The next character, which is not read; empty at the end."""
        while self.at == len(self._text) and not self.closed:
            yield
        return self._text[self.at : self.at + 1]

    def spaces(self) -> Waiting[str]:
        """Read white space."""
        return (yield from self.while_(str.isspace))

    def while_(self, fits: Callable[[str], bool], most: int = 1 << 30) -> Waiting[str]:
        """Read characters that fit, ``most`` of them at most."""
        begin = self.at
        while self.at - begin < most:
            character = yield from self.next()
            if not character or not fits(character):
                break
            self.at += 1
        return self._text[begin : self.at]

    def expect(self, literal: str) -> Waiting[None]:
        """Read a literal, with any white space where it has some and before it.

        Raises:
            MalformedError: something else comes.
        """
        for chunk in literal.split():
            yield from self.spaces()
            if not (yield from self.starts(chunk)):
                raise MalformedError
            self.at += len(chunk)

    def accept(self, literal: str) -> Waiting[bool]:
        """Read a literal if it comes next; whether it did."""
        place = self.at
        try:
            yield from self.expect(literal)
        except MalformedError:
            self.at = place
            return False
        return True

    def piece(self, *ends: str) -> Waiting[tuple[str, str | None]]:
        """Read some text before the first of some literals, none of which begins another.

        Returns:
            the text, and which literal came after it, which is not read: empty if there is none to
            the end of the text, ``None`` if there may be more before one.
        """
        while True:
            found = [(place, end) for end in ends if (place := self._text.find(end, self.at)) >= 0]
            if found:
                place, end = min(found)
                return self.take(place - self.at), end
            if self.closed:
                return self.take_all(), ""
            safe = len(self._text) - self.at - self._held(ends)
            if safe:
                return self.take(safe), None
            yield

    def until(self, *ends: str, most: int = 1 << 30) -> Waiting[str]:
        """Read all text before the first of some literals, which is not read.

        Raises:
            MalformedError: there is none within ``most`` characters.
        """
        begin = self.at
        end: str | None = None
        while end is None:
            _, end = yield from self.piece(*ends)
            if self.at - begin > most:
                raise MalformedError
        if not end:
            raise MalformedError
        return self.since(begin)

    def _held(self, ends: tuple[str, ...]) -> int:
        """How many of the last characters might begin one of ``ends``."""
        longest = min(max(map(len, ends)) - 1, len(self._text) - self.at)
        for n in range(longest, 0, -1):
            tail = self._text[len(self._text) - n :]
            if any(end.startswith(tail) for end in ends):
                return n
        return 0
