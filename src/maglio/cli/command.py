"""A command of typer's that reads a command line as llama.cpp does, and ends well.

Boundary: words of the command line, and what happens when output cannot be written. It knows no
model. Click takes ``-st`` for ``-s t`` and ``-ngl 99`` for ``-n gl 99``; here a word with one dash
is one option, as it is to llama.cpp.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from typer.core import TyperCommand

from maglio.cli.llama_flags import FOREIGN, SWITCH, ForeignFlag
from maglio.cli.streams import finish_output
from maglio.errors import InvalidArgumentError

_NUMBER_AT_ONCE = re.compile(r"-[a-zA-Z]\d+", re.ASCII)  # -n128


class LlamaCommand(TyperCommand):
    """A command whose options may be spelled as llama.cpp's."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401  # click's or typer's
        """Read the command line. What has no meaning here is left out, and one note says so."""
        words = _CommandLine(self._options(), args)
        known = list(words)
        if words.refusal:
            raise InvalidArgumentError(words.refusal)
        if words.ignored:
            print(
                f"maglio: note: {', '.join(words.ignored)} "
                f"{'has' if len(words.ignored) == 1 else 'have'} no meaning here; ignored",
                file=sys.stderr,
            )
        return super().parse_args(ctx, known)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        """Run, and see to it that all output has arrived."""
        with finish_output():
            return super().invoke(ctx)

    def _options(self) -> dict[str, bool]:
        """The spellings of the command's own options, and whether a value follows."""
        own = {"-h": False, "--help": False}
        for parameter in self.params:
            takes_value = not getattr(parameter, "is_flag", False)
            for name in (*parameter.opts, *parameter.secondary_opts):
                own[name] = takes_value
        return own


class _CommandLine:
    """The words of a command line that the command itself understands.

    Args:
        own: the spellings of its options, and whether a value follows.
        words: all words.
    """

    def __init__(self, own: dict[str, bool], words: Sequence[str]) -> None:
        self._own = own
        self._words = list(words)
        self.ignored: list[str] = []
        self.refusal = ""

    def __iter__(self) -> Iterator[str]:
        while self._words:
            word = _spelled(self._words.pop(0))
            if word == "--":
                yield from (word, *self._words)
                return
            if word in self._own:
                yield word
                yield from self._value(word)
            elif word in FOREIGN:
                self._foreign(word, FOREIGN[word])
            else:
                self._check(word)
                yield word

    def _value(self, word: str) -> Iterator[str]:
        if not self._own[word]:
            return
        if word in ("--color", "-co") and self._next() not in SWITCH:
            yield "on"  # llama.cpp's needs no value
        elif self._words:
            yield self._words.pop(0)

    def _foreign(self, word: str, flag: ForeignFlag) -> None:
        values = self._words[: flag.n_values]
        if flag.optional and self._next() in flag.optional:
            values = self._words[:1]
        del self._words[: len(values)]
        if flag.refused and not (values and values[0] in flag.neutral):
            self.refusal = self.refusal or f"{word} cannot be used: {flag.refused}"
        elif not flag.silent and not flag.refused:
            self.ignored.append(word)

    def _check(self, word: str) -> None:
        name = word.partition("=")[0]
        bundle = name.startswith("-") and not name.startswith("--") and len(name) > 2
        if bundle and name not in self._own and not _NUMBER_AT_ONCE.fullmatch(word):
            self.refusal = self.refusal or (
                f"there is no option {word}; options with one letter cannot be joined, and --help "
                "lists them all"
            )

    def _next(self) -> str:
        return self._words[0] if self._words else ""


def _spelled(word: str) -> str:
    """Long options may have underscores, as in llama.cpp."""
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value
