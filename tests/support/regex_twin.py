"""Small regular expressions, and what they match, by Brzozowski's derivatives."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st


@dataclass(frozen=True)
class Regex:
    """A node: ``char``, ``then``, ``or``, ``star``, ``empty`` (the empty text) or ``none``."""

    kind: str
    char: bytes = b""
    parts: tuple[Regex, ...] = ()

    @property
    def pattern(self) -> str:
        inner = [part.pattern for part in self.parts]
        if self.kind == "char":
            return self.char.decode()
        if self.kind == "empty":
            return "()"
        return {"then": "".join, "or": "|".join, "star": lambda i: i[0] + "*"}[self.kind](
            [f"({text})" for text in inner]
        )

    @property
    def nullable(self) -> bool:
        if self.kind in ("star", "empty"):
            return True
        if self.kind in ("char", "none"):
            return False
        return (all if self.kind == "then" else any)(part.nullable for part in self.parts)

    @property
    def possible(self) -> bool:
        """Whether there is a text that it matches."""
        if self.kind in ("then", "or"):
            return (all if self.kind == "then" else any)(part.possible for part in self.parts)
        return self.kind != "none"

    def after_byte(self, byte: int) -> Regex:
        if self.kind == "char":
            if self.char[0] != byte:
                return NONE
            return Regex("char", self.char[1:]) if self.char[1:] else EMPTY
        if self.kind == "star":
            return both(self.parts[0].after_byte(byte), self)
        if self.kind == "or":
            return either(*(part.after_byte(byte) for part in self.parts))
        if self.kind == "then":
            first, rest = self.parts
            gone = both(first.after_byte(byte), rest)
            return either(gone, rest.after_byte(byte)) if first.nullable else gone
        return NONE

    def after(self, text: bytes) -> Regex:
        regex = self
        for byte in text:
            regex = regex.after_byte(byte)
        return regex


NONE = Regex("none")
EMPTY = Regex("empty")


def both(first: Regex, second: Regex) -> Regex:
    if NONE in (first, second):
        return NONE
    if first == EMPTY:
        return second
    return first if second == EMPTY else Regex("then", parts=(first, second))


def either(*parts: Regex) -> Regex:
    left = tuple(dict.fromkeys(part for part in parts if part != NONE))
    if not left:
        return NONE
    return left[0] if len(left) == 1 else Regex("or", parts=left)


def regexes(characters: str) -> st.SearchStrategy[Regex]:
    leaf = st.sampled_from(characters).map(lambda c: Regex("char", c.encode()))
    return st.recursive(
        leaf | st.just(EMPTY),
        lambda inner: (
            st.tuples(inner, inner).map(lambda parts: Regex("then", parts=parts))
            | st.tuples(inner, inner).map(lambda parts: Regex("or", parts=parts))
            | inner.map(lambda part: Regex("star", parts=(part,)))
        ),
        max_leaves=6,
    )
