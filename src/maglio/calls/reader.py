"""Tells thinking, answer and calls apart in the text of an answer, as it comes.

Boundary: text in, deltas out; control tokens are shown in the text, but for those that end it.

What the deltas come to does not depend on how the text was cut into pieces. A call that is not well
formed is text, from its first character on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from maglio.calls.delta import Delta
from maglio.calls.feed import Feed, Waiting
from maglio.calls.harmony import HarmonyReader
from maglio.calls.notation import Tell
from maglio.calls.rows import Row, Thinking
from maglio.calls.section import Section
from maglio.calls.telling import Telling
from maglio.calls.tool import tools_of


class AnswerReader:
    """Reads one answer; :meth:`~maglio.calls.CallFormat.reader` makes one.

    Args:
        row: the format of calls.
        thinking: what comes around thoughts; ``None`` reads none.
        tools: descriptions of the tools that may be called, in OpenAI's form. A call of another
            one is text, so without tools no call is read.
        reasoning: whether the prompt has begun a thought.
        whole_calls: tell of a call only when all of it is there. Otherwise it is told as it comes,
            and if it turns out not to be well formed, all its text follows as content, and it is
            in :attr:`failed`.
    """

    def __init__(
        self,
        row: Row,
        thinking: Thinking | None,
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        reasoning: bool = False,
        whole_calls: bool = False,
    ) -> None:
        self._feed = Feed()
        self._told = Telling(whole_calls=whole_calls)
        by_name = tools_of(tools)
        if row.style == "harmony":
            self._reading = HarmonyReader(self._feed, self._told, by_name).read()
        else:
            section = Section(row, self._feed, by_name, self._told) if by_name else None
            plain = _Plain(self._feed, self._told, row, section)
            self._reading = plain.read(thinking, reasoning=reasoning)
        self._is_done = False

    @property
    def failed(self) -> frozenset[int]:
        """Calls that were told of and are not well formed, by index; their text is content too."""
        return frozenset(self._told.failed)

    def push(self, text: str) -> list[Delta]:
        """Read on."""
        self._feed.push(text)
        return self._read()

    def finish(self) -> list[Delta]:
        """The text has ended: what was held back."""
        self._feed.closed = True
        return self._read()

    def _read(self) -> list[Delta]:
        if not self._is_done:
            try:
                next(self._reading)
            except StopIteration:
                self._is_done = True
        return self._told.take()


class _Plain:
    """Thinking, then text with calls in it."""

    def __init__(self, feed: Feed, told: Telling, row: Row, section: Section | None) -> None:
        self._feed = feed
        self._told = told
        self._row = row
        self._section = section

    def read(self, thinking: Thinking | None, *, reasoning: bool) -> Waiting[None]:
        """Read it all."""
        feed = self._feed
        if thinking is not None and (reasoning or (yield from feed.accept(thinking.begin))):
            yield from self._thought(thinking.end)
            yield from feed.spaces()
            feed.forget()
        if self._section is None:
            while (yield from feed.next()):
                self._told.content(feed.take_all())
                feed.forget()
        else:
            yield from self._answer(self._section)

    def _thought(self, end: str) -> Waiting[None]:
        """Read a thought, without white space around it."""
        feed = self._feed
        yield from feed.spaces()
        held = ""
        found: str | None = None
        while found is None:
            text, found = yield from feed.piece(end)
            feed.forget()
            held = self._all_but_spaces(self._told.reasoning, held + text)
        if found:
            yield from feed.expect(end)
        else:
            self._told.reasoning(held)

    def _answer(self, section: Section) -> Waiting[None]:
        feed = self._feed
        held = ""  # white space, which is the format's if a call follows
        text_until = -1  # no call begins before this place
        if self._row.bare:
            held = yield from feed.spaces()
            if (yield from feed.next()) == "{":
                text_until = yield from section.read()
                held = held if text_until >= 0 else ""
        while True:
            text, found = yield from feed.piece(*self._row.triggers)
            if found and feed.at < text_until:
                text, found = text + feed.take(1), None
            held = self._all_but_spaces(self._told.content, held + text)
            text_until -= feed.at
            feed.forget()
            if found == "":
                self._told.content(held)
                return
            if found:
                text_until = yield from section.read()
                held = held if text_until >= 0 else ""

    @staticmethod
    def _all_but_spaces(tell: Tell, text: str) -> str:
        """Tell a text but for the white space that ends it, which is returned."""
        told = text.rstrip()
        tell(told)
        return text[len(told) :]
