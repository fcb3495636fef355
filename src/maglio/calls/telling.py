"""Collects what a reader tells, and takes back what it can of a call that fails."""

from __future__ import annotations

from maglio.calls.delta import CallArguments, CallBegan, ContentText, Delta, ReasoningText


class Telling:
    """The deltas of one answer.

    Args:
        whole_calls: tell of a call only when it has ended well.

    Attributes:
        failed: calls that were told of and did not end well, by index.
    """

    def __init__(self, *, whole_calls: bool) -> None:
        self.failed: set[int] = set()
        self._whole_calls = whole_calls
        self._deltas: list[Delta] = []
        self._held: list[Delta] = []
        self._index = 0
        self._is_open = False

    def take(self) -> list[Delta]:
        """Return what was told since the last time."""
        taken, self._deltas = self._deltas, []
        return taken

    def reasoning(self, text: str) -> None:
        """Thinking goes on."""
        if text:
            self._deltas.append(ReasoningText(text))

    def content(self, text: str) -> None:
        """The answer goes on."""
        if text:
            self._deltas.append(ContentText(text))

    def began(self, name: str) -> None:
        """A call has begun."""
        self._is_open = True
        self._add(CallBegan(self._index, name))

    def arguments(self, text: str) -> None:
        """The arguments of the call go on."""
        if text:
            self._add(CallArguments(self._index, text))

    def ended(self) -> None:
        """The call is well formed."""
        self._deltas += self._held
        self._close(was_told=True)

    def failed_call(self) -> None:
        """What looked like a call is not well formed."""
        if self._is_open and not self._whole_calls:
            self.failed.add(self._index)
        self._close(was_told=not self._whole_calls)

    def _close(self, *, was_told: bool) -> None:
        self._held.clear()
        self._index += self._is_open and was_told
        self._is_open = False

    def _add(self, delta: Delta) -> None:
        (self._held if self._whole_calls else self._deltas).append(delta)
