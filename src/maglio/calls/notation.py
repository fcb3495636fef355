"""Values in notations that are not JSON, read piece by piece and told as JSON.

Boundary: one value at a time; knows no calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from maglio.calls.feed import Feed, MalformedError, Waiting
from maglio.calls.typed import ALL_TYPES, json_of

MAX_DEPTH = 64
_MAX_KEY = 1024
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0"}
_HEX = {"x": 2, "u": 4, "U": 8}

Tell = Callable[[str], None]
"""Takes the next piece of JSON."""


@dataclass(frozen=True, slots=True)
class Notation:
    """How values are written.

    Attributes:
        quotes: what begins and ends a string.
        escapes: whether strings have Python's escapes.
    """

    quotes: tuple[str, ...]
    escapes: bool


PYTHON = Notation(("'", '"'), escapes=True)
GEMMA = Notation(('<|"|>',), escapes=False)


def value(
    feed: Feed, notation: Notation, tell: Tell, types: frozenset[str] = ALL_TYPES, depth: int = 0
) -> Waiting[None]:
    """Read one value.

    Raises:
        MalformedError: it is none.
    """
    if depth > MAX_DEPTH:
        raise MalformedError
    yield from feed.spaces()
    for quote in notation.quotes:
        if (yield from feed.accept(quote)):
            yield from _string(feed, notation, quote, tell)
            return
    if (yield from feed.accept("{")):
        yield from _members(feed, notation, tell, depth)
    elif (yield from feed.accept("[")):
        yield from _items(feed, notation, tell, depth)
    else:
        word = (yield from feed.until(",", "}", "]", ")")).strip()
        if not word:
            raise MalformedError
        tell(json_of(word, types))


def converted(text: str, types: frozenset[str]) -> str:
    """Return a whole value as JSON, be it JSON already, or Python's notation, or else a string."""
    told = json_of(text, types)
    if "string" in types or not told.startswith('"'):
        return told
    feed = Feed()
    feed.push(text)
    feed.closed = True
    pieces: list[str] = []
    try:
        for _ in value(feed, PYTHON, pieces.append, types):
            raise MalformedError  # all of it is there
    except MalformedError:
        return told
    return "".join(pieces)


def _members(feed: Feed, notation: Notation, tell: Tell, depth: int) -> Waiting[None]:
    tell("{")
    first = True
    while not (yield from feed.accept("}")):
        if not first:
            yield from feed.expect(",")
            if (yield from feed.accept("}")):  # Python allows a last comma
                break
            tell(", ")
        first = False
        tell(json.dumps((yield from key(feed, notation, ":")), ensure_ascii=False) + ": ")
        yield from value(feed, notation, tell, depth=depth + 1)
    tell("}")


def _items(feed: Feed, notation: Notation, tell: Tell, depth: int) -> Waiting[None]:
    tell("[")
    first = True
    while not (yield from feed.accept("]")):
        if not first:
            yield from feed.expect(",")
            if (yield from feed.accept("]")):
                break
            tell(", ")
        first = False
        yield from value(feed, notation, tell, depth=depth + 1)
    tell("]")


def key(feed: Feed, notation: Notation, end: str) -> Waiting[str]:
    """Read a key, in quotes or not, and what ends it."""
    yield from feed.spaces()
    for quote in notation.quotes:
        if (yield from feed.accept(quote)):
            pieces: list[str] = []
            yield from _string(feed, notation, quote, pieces.append)
            yield from feed.expect(end)
            return str(json.loads("".join(pieces)))
    name = (yield from feed.until(end, most=_MAX_KEY)).strip()
    feed.take(len(end))
    if not name:
        raise MalformedError
    return name


def _string(feed: Feed, notation: Notation, quote: str, tell: Tell) -> Waiting[None]:
    tell('"')
    ends = (quote, "\\") if notation.escapes else (quote,)
    while True:
        text, end = yield from feed.piece(*ends)
        if text:
            tell(inside(text))
        if end == "":
            raise MalformedError
        if end == quote:
            feed.take(len(quote))
            break
        if end is not None:
            tell(inside((yield from _escape(feed))))
    tell('"')


def _escape(feed: Feed) -> Waiting[str]:
    """Read an escape; one that is unknown stands for itself, as in Python."""
    feed.take(1)
    if not (yield from feed.next()):
        raise MalformedError
    kind = feed.take(1)
    if kind in _HEX:
        digits = yield from feed.while_(lambda c: c in "0123456789abcdefABCDEF", _HEX[kind])
        code = int(digits, 16) if len(digits) == _HEX[kind] else -1
        if not 0 <= code < 0x110000 or 0xD800 <= code < 0xE000:
            raise MalformedError
        return chr(code)
    if kind in "\\'\"\n":
        return "" if kind == "\n" else kind
    return _ESCAPES.get(kind, "\\" + kind)


def inside(text: str) -> str:
    """Return a text as it stands inside of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]
