"""Tells what a template wrote from what it was given, by rendering it a second time.

Boundary: knows Jinja's syntax trees, and nothing of chat or tokenizers; imports nothing of ours.

In the second rendering the template's own texts have a *stand-in*, a private-use character of its
own, for each character of the pieces that matter. The values that it was given are untouched, so
that every filter, test and method finds in them what it found the first time. Texts that the
template compares or searches with are untouched too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from jinja2 import Environment, Template, nodes
from jinja2.visitor import NodeTransformer

_FIRST = 0xF0000  # the supplementary private use areas
_LAST = 0x10FFFD

# Arguments that end up in the result, by filter and method: from which one on. The others are
# looked for, or say how.
_WRITTEN_FROM = {
    "join": 0,
    "default": 0,
    "d": 0,
    "format": 0,
    "cycle": 0,
    "replace": 1,
    "get": 1,
    "indent": 0,
    "append": 0,
    "extend": 0,
    "insert": 1,
    "update": 0,
    "setdefault": 1,
}


class StandIns:
    """A character for each character of the pieces.

    Args:
        pieces: the texts whose characters are replaced, wherever a template writes one.
        base: code point of the first stand-in.
    """

    def __init__(self, pieces: Sequence[str], base: int) -> None:
        characters = characters_of(pieces)
        stand_ins = [chr(base + i) for i in range(len(characters))]
        self._to = str.maketrans(dict(zip(characters, stand_ins, strict=True)))
        self._back = str.maketrans(dict(zip(stand_ins, characters, strict=True)))
        longest_first = sorted(pieces, key=len, reverse=True)
        self._piece = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        last = chr(base + max(len(characters) - 1, 0))
        self.run = re.compile(f"[{chr(base)}-{last}]+")

    def put(self, text: str) -> str:
        """Replace the pieces in ``text``."""
        return self._piece.sub(lambda found: found.group().translate(self._to), text)

    def take(self, text: str) -> str:
        """Return what the stand-ins in ``text`` stand for."""
        return self.run.sub(lambda found: found.group().translate(self._back), text)


def characters_of(pieces: Iterable[str]) -> list[str]:
    """The characters that need a stand-in."""
    return sorted(set().union(*pieces))


def free_base(n_characters: int, texts: Iterable[str]) -> int | None:
    """The first code point of a range of stand-ins that occur in none of the texts, if any."""
    taken = {
        ord(character)
        for text in texts
        if not text.isascii() and ord(max(text)) >= _FIRST
        for character in text
        if ord(character) >= _FIRST
    }
    base = _FIRST
    for code in [*sorted(taken), _LAST + 1]:
        if code - base >= n_characters:
            return base
        base = code + 1
    return None


def compile_with(
    environment: Environment, source: str, stand_ins: StandIns, *, compared: bool
) -> Template:
    """Compile a template so that its own texts have stand-ins.

    ``compared``: also those that it only compares or searches with, which is right where it does
    so with texts of its own.
    """
    tree = environment.parse(source)
    (_ReplacementEverywhere if compared else _Replacement)(stand_ins).visit(tree)
    code = environment.compile(tree)
    made: Template = environment.template_class.from_code(
        environment, code, environment.make_globals(None), None
    )
    return made


class _ReplacementEverywhere(NodeTransformer):
    """Puts stand-ins into all texts of a tree."""

    def __init__(self, stand_ins: StandIns) -> None:
        self._put = stand_ins.put

    def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Node:  # noqa: N802 (Jinja's)
        node.data = self._put(node.data)
        return node

    def visit_Const(self, node: nodes.Const) -> nodes.Node:  # noqa: N802
        if isinstance(node.value, str):
            node.value = self._put(node.value)
        return node


class _Replacement(_ReplacementEverywhere):
    """Puts stand-ins into the texts of a tree that are written."""

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        return node

    def visit_Test(self, node: nodes.Test) -> nodes.Node:  # noqa: N802
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.visit(node.node)
        return node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:  # noqa: N802
        self.visit(node.value)
        return node

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:  # noqa: N802
        if node.node is not None:
            self.visit(node.node)
        return self._arguments(node, node.name)

    def visit_Call(self, node: nodes.Call) -> nodes.Node:  # noqa: N802
        if not isinstance(node.node, nodes.Getattr):
            self.generic_visit(node)  # a macro, namespace(): arguments are values
            return node
        self.visit(node.node)
        return self._arguments(node, node.node.attr)

    def _arguments(self, node: nodes.Filter | nodes.Call, name: str) -> nodes.Node:
        written = _WRITTEN_FROM.get(name)
        if written is not None:
            for argument in node.args[written:]:
                self.visit(argument)
            for keyword in node.kwargs:
                self.visit(keyword)
        return node
