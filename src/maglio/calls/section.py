"""Reads a series of calls, and goes back to where one began that is none.

Boundary: from what opens the first call to what closes the last.
"""

from __future__ import annotations

from collections.abc import Mapping

from maglio.calls.envelope import Envelope
from maglio.calls.feed import Feed, MalformedError, Waiting
from maglio.calls.rows import Row
from maglio.calls.telling import Telling
from maglio.calls.tool import Tool

_NOWHERE = 1 << 60  # beyond any place: what is cut off is text to the end


class Section:
    """Reads calls of one format.

    Args:
        row: the format.
        feed: the text.
        tools: those that may be called.
        told: takes what is read.
    """

    def __init__(self, row: Row, feed: Feed, tools: Mapping[str, Tool], told: Telling) -> None:
        self._row = row
        self._feed = feed
        self._told = told
        self._envelope = Envelope(row, feed, tools, told)

    def read(self) -> Waiting[int]:
        """Read calls up to the last that is well formed.

        Returns:
            the place before which no call begins, if what should have been one is none; else -1.
        """
        feed, (opening, closing) = self._feed, self._row.section
        back = first = feed.at
        is_section = bool(opening) and (yield from feed.accept(opening))
        while True:
            start = first if back == first else feed.at
            try:
                yield from self._envelope.call()
            except MalformedError:
                self._told.failed_call()
                is_cut = feed.closed and not (yield from feed.next())
                feed.at = back
                return _NOWHERE if is_cut else start + 1
            self._told.ended()
            back = feed.at
            if is_section and closing and (yield from feed.accept(closing)):
                return -1
            if not (yield from self._goes_on(is_section=is_section)):
                feed.at = back
                return -1

    def _goes_on(self, *, is_section: bool) -> Waiting[bool]:
        """Whether another call follows; reads what is between."""
        feed, row = self._feed, self._row
        if row.between.strip():
            return (yield from feed.accept(row.between))
        if not is_section:
            return False
        yield from feed.spaces()
        return (yield from feed.starts((row.opening.split() or ["{"])[0]))
