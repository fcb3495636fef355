"""Reads answers in channels: thinking, preambles, calls and the answer as messages of their own.

Boundary: the format of gpt-oss models. A message is a header, ``<|message|>`` and a text; the
header names a channel, and a tool if it is a call. The prompt has begun the first header.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from maglio.calls.envelope import Envelope
from maglio.calls.feed import Feed, MalformedError, Waiting
from maglio.calls.notation import Tell
from maglio.calls.rows import Row
from maglio.calls.telling import Telling
from maglio.calls.tool import Tool

START, CHANNEL, MESSAGE = "<|start|>", "<|channel|>", "<|message|>"
ENDS = ("<|end|>", "<|call|>", "<|return|>")
_HEADERS = (START, CHANNEL, " to=")
_MAX_HEADER = 512
_RECIPIENT = re.compile(r"\bto=(?:functions\.)?([^\s<]+)")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")
_ARGUMENTS = Row(name="harmony", style="json")


class HarmonyReader:
    """Reads the messages of one answer.

    Args:
        feed: the text.
        told: takes what is read.
        tools: those that may be called.
    """

    def __init__(self, feed: Feed, told: Telling, tools: Mapping[str, Tool]) -> None:
        self._feed = feed
        self._told = told
        self._tools = tools
        self._envelope = Envelope(_ARGUMENTS, feed, tools, told)

    def read(self) -> Waiting[None]:
        """Read it all."""
        feed, told = self._feed, self._told
        while (yield from feed.next()):
            header = yield from self._header()
            if header is None:
                yield from self._text(told.content)
                continue
            recipient, channel = _RECIPIENT.search(header), _CHANNEL.search(header)
            if recipient is not None:
                yield from self._call(recipient[1])
            elif channel is not None and channel[1] == "analysis":
                yield from self._text(told.reasoning)
            else:
                yield from self._text(told.content)

    def _header(self) -> Waiting[str | None]:
        """Read a message's header if it has one."""
        feed = self._feed
        feed.forget()
        for begin in _HEADERS:
            if (yield from feed.starts(begin)):
                break
        else:
            return None
        try:
            header = yield from feed.until(MESSAGE, most=_MAX_HEADER)
        except MalformedError:
            self._told.content(feed.since(0))
            return None
        feed.take(len(MESSAGE))
        return header

    def _text(self, tell: Tell) -> Waiting[None]:
        """Read a message's text, and what ends it."""
        feed = self._feed
        found: str | None = None
        while found is None:
            text, found = yield from feed.piece(*ENDS, START, CHANNEL)
            tell(text)
            feed.forget()
        if found in ENDS:
            feed.take(len(found))

    def _call(self, name: str) -> Waiting[None]:
        feed, told = self._feed, self._told
        try:
            if name not in self._tools:
                raise MalformedError
            yield from self._envelope.arguments_of(name)
        except MalformedError:
            told.failed_call()
            told.content(feed.since(0))
            yield from self._text(told.content)
            return
        told.ended()
        yield from feed.spaces()
        for end in ENDS:
            if (yield from feed.accept(end)):
                break
