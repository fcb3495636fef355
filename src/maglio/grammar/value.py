"""What a text has to look like, as a value: a kind of grammar and its source.

Boundary: nothing here is compiled; :mod:`maglio.grammar.compiler` says what is valid.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from maglio.checks import check_choice
from maglio.errors import GrammarError, InvalidArgumentError

MAX_SOURCE = 1 << 20
"""Most bytes of a grammar's source."""

Kind = Literal["json_schema", "regex", "gbnf", "lark", "choice"]
KINDS: tuple[Kind, ...] = ("json_schema", "regex", "gbnf", "lark", "choice")


@dataclass(frozen=True, slots=True)
class Grammar:
    """What a generation may say. Make one with a class method; each says what its source is.

    Equal grammars are compiled once (see :class:`~maglio.grammar.GrammarCompiler`).

    Attributes:
        kind: the language of ``source``.
        source: a JSON schema as JSON, a regular expression, a GBNF or Lark grammar, or a JSON
            array of the texts to choose from.
        opening: a Lark grammar of what comes first, such as a thought; empty for nothing.

    Raises:
        InvalidArgumentError: an argument has the wrong type.
        GrammarError: the source is too long, or is not text.
    """

    kind: Kind
    source: str
    opening: str = ""

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        for name, text in (("source", self.source), ("opening", self.opening)):
            if not isinstance(text, str):
                raise InvalidArgumentError(
                    f"{name} is a {type(text).__name__}, must be a text ({self.kind})"
                )
            try:
                size = len(text.encode())
            except UnicodeEncodeError as error:
                raise GrammarError(
                    f"the {self.kind} grammar has {text[error.start]!r} at character "
                    f"{error.start}, half of a surrogate pair; write the whole character"
                ) from None
            if size > MAX_SOURCE:
                raise GrammarError(
                    f"the {self.kind} grammar has {size} bytes, more than {MAX_SOURCE}; "
                    "use a smaller one"
                )

    @classmethod
    def json_schema(cls, schema: Mapping[str, Any] | bool) -> Grammar:
        """A JSON value that a JSON schema accepts, on one line, as ``json.dumps`` writes it.

        Properties come in the order of the schema. What the schema may use is described in
        ``docs/grammar.md``.

        Args:
            schema: the schema as Python values; ``True`` accepts every value.
        """
        if not isinstance(schema, (Mapping, bool)):
            raise InvalidArgumentError(
                f"schema is a {type(schema).__name__}, must be a mapping, or True for any value"
            )
        if schema is False:
            raise GrammarError("the JSON schema is false, which no value fits")
        try:
            value = {} if schema is True else dict(schema)
            source = json.dumps(value, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise GrammarError(f"the JSON schema is not JSON: {error}") from None
        return cls("json_schema", source)

    @classmethod
    def json_object(cls) -> Grammar:
        """Any JSON object, on one line, as ``json.dumps`` writes it."""
        return cls.json_schema({"type": "object"})

    @classmethod
    def regex(cls, pattern: str) -> Grammar:
        """A text that a regular expression matches as a whole.

        The syntax is that of Rust's ``regex`` crate, without look-around.
        """
        return cls("regex", pattern)

    @classmethod
    def gbnf(cls, text: str) -> Grammar:
        """A text of llama.cpp's grammar notation; its first rule is ``root``."""
        return cls("gbnf", text)

    @classmethod
    def lark(cls, text: str) -> Grammar:
        """A text of llguidance's variant of Lark grammars; its first rule is ``start``."""
        return cls("lark", text)

    @classmethod
    def choice(cls, texts: Sequence[str]) -> Grammar:
        """One of some texts."""
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise InvalidArgumentError("texts must be a sequence of texts")
        if not texts:
            raise InvalidArgumentError("texts is empty, must have at least one text to choose")
        return cls("choice", json.dumps(list(texts), ensure_ascii=False))

    def after(self, opening: str) -> Grammar:
        """The same after something else, such as a thought.

        Args:
            opening: a Lark grammar, which has to say where what it is of ends.
        """
        return replace(self, opening=opening)
