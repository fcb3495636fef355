"""Which control tokens of a rendering the template wrote.

Boundary: names of control tokens, texts and spans. Knows no Jinja and no ids.

Control tokens come from the template alone: what looks like one in a message stays text. A
template takes its messages apart, so they go into it as they are, and it is rendered a second time
with stand-ins for the characters it writes itself (:mod:`maglio.text.stand_ins`). Where both
renderings are the same text, each character is known to be the template's or not. A control token
must begin and end in characters of the template, and what is between is the template's too, or a
role. Where they are not, which takes a template that looks into its own text and a message's put
together, that is known for what they begin and end with in common, and what is between is text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from maglio.text.rendering import Rendering
from maglio.text.stand_ins import StandIns

_MAX_PIECE = 256

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Found:
    """Control tokens in a rendering.

    Attributes:
        control: where they are, ascending.
        doubtful: names that the template began and ended around something else, not counted as
            control tokens. A rendering with stand-ins for all their characters tells whether that
            was its own too.
    """

    control: tuple[Span, ...]
    doubtful: frozenset[str]


class ControlNames:
    """The texts that spell control tokens."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(name for name in names if name)
        lengths: dict[str, set[int]] = {}
        for name in self.names:
            lengths.setdefault(name[0], set()).add(len(name))
        self._lengths = {first: sorted(sizes, reverse=True) for first, sizes in lengths.items()}
        self._first = _one_of(lengths)
        self._edges = frozenset(edge for name in self.names for edge in (name[0], name[-1]))

    def pieces(self, source: str, own: Iterable[str]) -> tuple[str, ...]:
        """Every piece of a control token that a template can begin or end one with.

        Args:
            source: the template.
            own: texts that it is given and that count as its own.
        """
        found = set(self._edges) | {text for text in own if text}
        found |= set(_beginnings(source, self._first, sorted(self.names)))
        backwards = sorted(name[::-1] for name in self.names)
        last = _one_of({name[0] for name in backwards})
        found |= {piece[::-1] for piece in _beginnings(source[::-1], last, backwards)}
        return tuple(sorted(found))

    def find(
        self,
        rendering: Rendering,
        stand_ins: StandIns,
        roles: Iterable[str],
    ) -> Found:
        """Find the control tokens that the template wrote, the longest where several begin.

        Args:
            rendering: what it wrote.
            stand_ins: those of its second rendering.
            roles: words that a template may build a control token with.
        """
        text = rendering.plain
        runs = _own_runs(text, rendering.marked, stand_ins)
        own = bytearray(len(text))
        for first, last in runs:
            own[first:last] = b"\1" * (last - first)
        words = {role.casefold() for role in roles}
        spans: list[Span] = []
        doubtful: set[str] = set()
        at = 0
        for begin in (i for run in runs for i in self._begins(text, run)):
            end = self._end(text, begin, own)
            if begin < at or end is None:
                continue
            middle = "".join(text[i] for i in range(begin, end) if not own[i]).casefold()
            if middle and middle not in words:
                doubtful.add(text[begin:end])
                continue
            spans.append((begin, end))
            at = end
        return Found(tuple(spans), frozenset(doubtful))

    def _begins(self, text: str, run: Span) -> Iterator[int]:
        return (found.start() for found in self._first.finditer(text, *run))

    def _end(self, text: str, begin: int, own: bytearray) -> int | None:
        for length in self._lengths[text[begin]]:
            end = begin + length
            if end <= len(text) and own[end - 1] and text[begin:end] in self.names:
                return end
        return None


def _own_runs(text: str, marked: str | None, stand_ins: StandIns) -> list[Span]:
    """Where the template's own characters are, as far as the two renderings agree."""
    if marked is None:
        return []
    runs = [found.span() for found in stand_ins.run.finditer(marked)]
    theirs = stand_ins.take(marked)
    if theirs == text:
        return runs
    prefix = _n_common(text, theirs)
    suffix = _n_common(text[prefix:][::-1], theirs[prefix:][::-1])
    shift = len(text) - len(theirs)
    clipped = [(begin, min(end, prefix)) for begin, end in runs if begin < prefix]
    first = len(theirs) - suffix
    return clipped + [
        (max(begin, first) + shift, end + shift) for begin, end in runs if end > first
    ]


def _n_common(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _beginnings(text: str, first: re.Pattern[str], names: list[str]) -> Iterator[str]:
    """The longest beginning of a name at each place where one can begin."""
    for found in first.finditer(text):
        begin = found.start()
        longest = 1
        while longest < _MAX_PIECE and begin + longest < len(text):
            piece = text[begin : begin + longest + 1]
            at = bisect_left(names, piece)
            if at == len(names) or not names[at].startswith(piece):
                break
            longest += 1
        yield text[begin : begin + longest]


def _one_of(characters: Iterable[str]) -> re.Pattern[str]:
    inside = "".join(map(re.escape, sorted(characters)))
    return re.compile(f"[{inside}]" if inside else r"(?!)")
