"""What ``maglio demo`` shows: questions, answers as they are written, and a table of their speeds.

Boundary: from streams to text. It chooses no question and loads no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table

from maglio.bench.scenes import Comparison, Scene
from maglio.cli.streams import emit
from maglio.cli.terminal import TokenWriter
from maglio.generation import Generation, Stream

_BOLD, _DIM, _RESET = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_LEGEND = (("conversation", "the text so far"), ("prediction", "the original"))


class DemoPage:
    """The page.

    Args:
        out: where it is written.
        color: whether tokens are coloured by what predicted them.
    """

    def __init__(self, out: TextIO, *, color: bool) -> None:
        self._out = out
        self._color = color
        self._writer = TokenWriter(out, color=color)

    def begin(self, model: str, threads: int | None) -> None:
        """Say what is shown."""
        on = "" if threads is None else f", {threads} {'thread' if threads == 1 else 'threads'}"
        self._line(f"{model}{on}. Each answer comes twice: without drafts, then with them.")
        if self._color:
            emit(self._out, "Coloured tokens were drafted, from ")
            for number, (source, meaning) in enumerate(_LEGEND):
                emit(self._out, ", " if number else "")
                self._writer.write(meaning, source)
            emit(self._out, ", or ")
            self._writer.write("guesses of earlier steps", "recycling")
            emit(self._out, ".\n")

    def ask(self, scene: Scene) -> None:
        """Show a question."""
        self._line()
        self._line(f"{scene.name[0].upper()}{scene.name[1:]}: {scene.instruction}", _BOLD)

    def answer(self, how: str, stream: Stream) -> Generation:
        """Show an answer as it comes.

        Args:
            how: how it is computed.
            stream: the answer, which is run to its end.

        Raises:
            KeyboardInterrupt: Ctrl-C ended it; the line is ended then.
        """
        self._line(f"[{how}]", _DIM)
        try:
            for token in stream:
                self._writer.write(token.text, token.source)
        except KeyboardInterrupt:
            stream.close()
            self._line()
            raise
        if not stream.text.endswith("\n"):
            self._line()
        return stream.result()

    def end(self, comparisons: Sequence[Comparison]) -> None:
        """Show the speeds."""
        self._line()
        Console(file=self._out, highlight=False).print(_table(comparisons))

    def _line(self, text: str = "", style: str = "") -> None:
        emit(self._out, f"{style}{text}{_RESET}\n" if style and self._color else f"{text}\n")


def _table(comparisons: Sequence[Comparison]) -> Table:
    table = Table("", box=None, pad_edge=False, header_style="")
    for heading in ("without drafts", "with drafts", "ratio", "tokens per step", "answers"):
        table.add_column(heading, justify="right")
    for comparison in comparisons:
        table.add_row(
            comparison.scene.name,
            f"{comparison.plain.stats.tokens_per_s:.1f} tok/s",
            f"{comparison.speculative.stats.tokens_per_s:.1f} tok/s",
            f"{comparison.ratio:.2f}",
            f"{comparison.speculative.stats.tokens_per_step:.2f}",
            "identical" if comparison.identical else "DIFFERENT",
        )
    return table
