"""Stop strings in streamed text. Knows text only, no tokens."""

from __future__ import annotations

from collections.abc import Sequence

from maglio.errors import InvalidArgumentError


class StopMatcher:
    """Watches streamed text for stop strings and cuts it before the first one.

    The first is the one complete earliest in the text (the longest, if several end there), so
    the result does not depend on how the text was cut into pieces. Text is held back only while
    it could still become a stop string. A push costs time proportional to the text pushed plus
    the length of the stop strings.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if (
            not isinstance(stops, Sequence)
            or isinstance(stops, str)
            or not all(isinstance(stop, str) and stop for stop in stops)
        ):
            raise InvalidArgumentError(
                f"stop must be a sequence of strings, none of them empty, not {stops!r}"
            )
        self._stops = tuple(dict.fromkeys(stops))
        self._longest = max(map(len, self._stops), default=0)
        self._held = ""
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """Whether a stop string was met."""
        return self._stopped

    @property
    def holding(self) -> bool:
        """Whether text is held back that a stop string may begin with."""
        return bool(self._held)

    def push(self, text: str) -> tuple[str, bool]:
        """Take more text; return what can be shown, and whether a stop string was met.

        Once stopped, all further text is dropped.
        """
        if self._stopped:
            return "", True
        text = self._held + text
        ends = [
            (begin + len(stop), begin) for stop in self._stops if (begin := text.find(stop)) >= 0
        ]
        if ends:
            self._stopped = True
            self._held = ""
            return text[: min(ends)[1]], True
        hold = self._partial_length(text)
        self._held = text[len(text) - hold :]
        return text[: len(text) - hold], False

    def flush(self) -> str:
        """Return what was held back, as the text ends here."""
        text, self._held = self._held, ""
        return text

    def _partial_length(self, text: str) -> int:
        """Return the length of the longest end of ``text`` that begins a stop string."""
        for length in range(min(self._longest - 1, len(text)), 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self._stops):
                return length
        return 0
