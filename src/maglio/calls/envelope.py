"""Reads calls as a format's row has them.

Boundary: from a call's first character to its last. What comes around calls is the answer's reader
(:mod:`~maglio.calls.reader`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Protocol

from maglio.calls import notation
from maglio.calls.feed import Feed, MalformedError, Waiting
from maglio.calls.notation import GEMMA, PYTHON, inside
from maglio.calls.rows import Row
from maglio.calls.tool import Tool
from maglio.calls.typed import is_json, is_text

_MAX_NAME = 256
_MARK = re.compile(r'["\\{}\[\]]')


class Told(Protocol):
    """Takes what is read of a call."""

    def began(self, name: str) -> None:
        """A call of this tool has begun."""
        ...

    def arguments(self, text: str) -> None:
        """Its arguments go on."""
        ...


class Envelope:
    """Reads calls of one format from a feed.

    Args:
        row: the format.
        feed: the text.
        tools: those that may be called; none means any.
        told: takes what is read.
    """

    def __init__(self, row: Row, feed: Feed, tools: Mapping[str, Tool], told: Told) -> None:
        self._row = row
        self._feed = feed
        self._tools = tools
        self._told = told

    def call(self) -> Waiting[None]:
        """Read one call.

        Raises:
            MalformedError: it is none.
        """
        row, feed = self._row, self._feed
        yield from feed.expect(row.opening)
        if row.style == "object":
            yield from self._object()
        else:
            yield from feed.spaces()
            tool = yield from self._tool()
            if row.style == "tagged":
                yield from self._tagged(tool)
                return
            yield from feed.expect(row.after_name)
            if row.style == "json":
                yield from self.arguments_of(tool.name)
            elif row.style == "gemma":
                yield from self._gemma(tool)
            else:
                yield from self._python(tool)
                return
        # What is left to say is known, so a model that leaves it out has said all the same.
        for chunk in row.closing.split():
            if not (yield from feed.accept(chunk)):
                break

    def arguments_of(self, name: str) -> Waiting[None]:
        """Read the arguments of a call whose name is known, a JSON object.

        Raises:
            MalformedError: they are none.
        """
        self._told.began(name)
        yield from self._json(self._told.arguments)

    def _tool(self) -> Waiting[Tool]:
        feed, row = self._feed, self._row
        name = yield from feed.while_(_is_name, _MAX_NAME)
        if row.call_id and row.call_id in name:  # an id right after the name
            name = name.rpartition(row.call_id)[0]
        elif row.call_id and (yield from feed.accept(row.call_id)):
            yield from feed.while_(str.isalnum, _MAX_NAME)
        return self._known(name)

    def _known(self, name: str) -> Tool:
        if not name or (self._tools and name not in self._tools):
            raise MalformedError
        return self._tools.get(name) or Tool(name)

    def _object(self) -> Waiting[None]:
        """Read a call that is a JSON object as a whole; once its arguments are there it stands."""
        feed, (name_key, _) = self._feed, self._row.keys
        name: str | None = None
        held: str | None = None  # arguments, which may come before the name
        yield from feed.expect("{")
        while name is None or held is None:
            key = yield from self._key()
            if key == name_key and name is None:
                name = self._known((yield from self._json_text())).name
                if held is not None:
                    self._told.began(name)
                    self._told.arguments(held)
            elif key in (*self._row.keys[1:], "arguments", "parameters") and held is None:
                if name is not None:
                    self._told.began(name)
                held = yield from self._arguments(streams=name is not None)
            else:
                yield from self._any_json()
            is_last = not (yield from feed.accept(","))
            if is_last:
                break
        if name is None:
            raise MalformedError
        if held is None:
            yield from feed.expect("}")
            self._told.began(name)
            self._told.arguments("{}")
        else:
            yield from self._rest_of_object(is_last=is_last)

    def _rest_of_object(self, *, is_last: bool) -> Waiting[None]:
        feed = self._feed
        place = feed.at
        try:
            while not is_last:
                yield from self._key()
                yield from self._any_json()
                is_last = not (yield from feed.accept(","))
            yield from feed.expect("}")
        except MalformedError:
            feed.at = place

    def _key(self) -> Waiting[str]:
        key = yield from self._json_text()
        yield from self._feed.expect(":")
        yield from self._feed.spaces()
        return key

    def _arguments(self, *, streams: bool) -> Waiting[str]:
        """Read the arguments in an object: an object, or one written as a string."""
        pieces: list[str] = []
        tell = self._told.arguments if streams else pieces.append
        character = yield from self._feed.next()
        if character == "{":
            yield from self._json(tell)
        else:
            text = yield from self._any_json()
            if not is_json(text):
                raise MalformedError
            value = json.loads(text)
            if value is not None and (not isinstance(value, str) or not _is_object(value)):
                raise MalformedError
            tell(value or "{}")
        return "".join(pieces)

    def _json(self, tell: notation.Tell) -> Waiting[None]:
        """Read a JSON object and tell it as it is."""
        feed = self._feed
        yield from feed.spaces()
        if (yield from feed.next()) != "{":
            raise MalformedError
        text = yield from self._bracketed(tell)
        if not is_json(text):
            raise MalformedError

    def _bracketed(self, tell: notation.Tell | None = None) -> Waiting[str]:
        """Read from a bracket or a quote to the one that closes it."""
        feed = self._feed
        begin = feed.at
        depth, in_string, is_escaped = 0, False, False
        while (yield from feed.next()):
            here = feed.at
            text = feed.take_all()
            at, end = int(is_escaped), None
            is_escaped = False
            while end is None and (mark := _MARK.search(text, at)):
                at = mark.end()
                if mark[0] == "\\":
                    is_escaped = at == len(text)
                    at += 1
                    continue
                if mark[0] == '"':
                    in_string = not in_string
                elif not in_string:
                    depth += 1 if mark[0] in "{[" else -1
                if depth == 0 and not in_string:
                    end = at
            feed.at = here + (len(text) if end is None else end)
            if tell:
                tell(feed.since(here))
            if end is not None:
                return feed.since(begin)
        raise MalformedError

    def _json_text(self) -> Waiting[str]:
        yield from self._feed.spaces()
        if (yield from self._feed.next()) != '"':
            raise MalformedError
        text = yield from self._bracketed()
        if not is_json(text):
            raise MalformedError
        return str(json.loads(text))

    def _any_json(self) -> Waiting[str]:
        """Read a JSON value, which need not be valid yet."""
        if (yield from self._feed.next()) in ("{", "[", '"'):
            return (yield from self._bracketed())
        return (yield from self._feed.while_(lambda c: c not in ",}]"))

    def _tagged(self, tool: Tool) -> Waiting[None]:
        """Read arguments between tags, to the end of the call."""
        row, feed, told = self._row, self._feed, self._told
        before, after_key, after_value = row.tags
        end, *rest = row.closing.split()
        for chunk in row.after_name.split():
            yield from feed.expect(chunk)
        began = False
        while not (yield from feed.accept(end)):
            yield from feed.expect(before)
            key = (yield from feed.until(after_key.split()[0], most=_MAX_NAME)).strip()
            yield from feed.expect(after_key)
            if not began:
                told.began(tool.name)
            told.arguments(("{" if not began else ", ") + json.dumps(key, ensure_ascii=False))
            told.arguments(": ")
            began = True
            yield from self._between_tags(after_value.strip(), tool.types(key))
        if not began:
            told.began(tool.name)
        told.arguments("}" if began else "{}")
        for chunk in rest:
            if not (yield from feed.accept(chunk)):
                break

    def _between_tags(self, end: str, types: frozenset[str]) -> Waiting[None]:
        feed, told = self._feed, self._told
        if self._row.padded and (yield from feed.next()) == "\n":
            feed.take(1)
        if not is_text(types):
            text = yield from feed.until(end)
            text = text.removesuffix("\n") if self._row.padded else text
            told.arguments(notation.converted(text, types))
        else:
            told.arguments('"')
            held = ""  # a line's end that may be the one before the tag
            found: str | None = None
            while found is None:
                text, found = yield from feed.piece(end)
                text = held + text
                held = "\n" if self._row.padded and text.endswith("\n") else ""
                told.arguments(inside(text.removesuffix(held)))
            if not found:
                raise MalformedError
            told.arguments('"')
        yield from feed.expect(end)

    def _gemma(self, tool: Tool) -> Waiting[None]:
        if (yield from self._feed.next()) != "{":
            raise MalformedError
        self._told.began(tool.name)
        yield from notation.value(self._feed, GEMMA, self._told.arguments)

    def _python(self, tool: Tool) -> Waiting[None]:
        """Read arguments ``key=value``, to the end of the call."""
        feed, tell = self._feed, self._told.arguments
        self._told.began(tool.name)
        tell("{")
        first = True
        while not (yield from feed.accept(self._row.closing)):
            if not first:
                yield from feed.expect(",")
                tell(", ")
            first = False
            key = yield from notation.key(feed, PYTHON, "=")
            tell(json.dumps(key, ensure_ascii=False) + ": ")
            yield from notation.value(feed, PYTHON, tell, tool.types(key))
        tell("}")


def _is_name(character: str) -> bool:
    return character.isalnum() or character in "_-.:/$"


def _is_object(text: str) -> bool:
    return text.lstrip().startswith("{") and is_json(text)
