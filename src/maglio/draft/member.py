"""One source inside the cascade: where it stands in its index, and how its drafts did."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from maglio.draft.calibration import Calibration
from maglio.draft.options import IndexOptions
from maglio.draft.source import SourceCounts


class Matcher(Protocol):
    """An index that follows the stream."""

    @property
    def match_length(self) -> int:
        """Tokens of the stream's end that the index knows how to continue."""
        ...

    def draft(self, limit: int) -> list[int]:
        """At most ``limit`` tokens that may follow the stream."""
        ...

    def weighed_draft(self, limit: int) -> tuple[list[int], bytes]:
        """The same, and a class of :data:`~maglio.draft.calibration.EVIDENCE` for each token."""
        ...


class Member:
    """A matcher with its name, its counts, its calibration, and the window that can mute it.

    Args:
        name: as reported to users, such as ``reference:0``.
        matcher: the index.
        follow: tells the index of the stream's next tokens.
        options: the constants of muting.
    """

    __slots__ = (
        "_accepted",
        "_drafted",
        "_mute_left",
        "_options",
        "_window",
        "calibration",
        "draft",
        "follow",
        "matcher",
        "name",
    )

    def __init__(
        self,
        name: str,
        matcher: Matcher,
        follow: Callable[[npt.NDArray[np.int32]], None],
        options: IndexOptions,
    ) -> None:
        self.name = name
        self.matcher = matcher
        self.draft = matcher.draft
        self.calibration = Calibration(self.kind)
        self.follow = follow
        self._options = options
        self._window: deque[bool] = deque(maxlen=options.window)
        self._drafted = 0
        self._accepted = 0
        self._mute_left = 0

    def replace(self, matcher: Matcher, follow: Callable[[npt.NDArray[np.int32]], None]) -> None:
        """Draft from another index from now on, with the same account."""
        self.matcher = matcher
        self.draft = matcher.draft
        self.follow = follow

    @property
    def muted(self) -> bool:
        """Whether the member sits out: it goes on following the stream, but drafts nothing."""
        return self._mute_left > 0

    @property
    def kind(self) -> str:
        """The name without the number: ``reference`` for ``reference:0``."""
        return self.name.partition(":")[0]

    def counts(self) -> SourceCounts:
        """Draft tokens of this member that were tried and accepted."""
        return SourceCounts(self._drafted, self._accepted, self.muted)

    def observe(self, tokens: npt.NDArray[np.int32]) -> None:
        """Follow the stream by ``tokens``; they count against the time that it is muted."""
        self.follow(tokens)
        if self._mute_left:
            self._mute_left = max(0, self._mute_left - len(tokens))

    def judge(self, drafted: int, accepted: int) -> None:
        """Account for a draft that was tried; mutes the member if its window says so.

        Call it after :meth:`observe` of the tokens that the draft was tried on.
        """
        self._drafted += drafted
        self._accepted += accepted
        options = self._options
        if not options.mutes:
            return
        self._window.extend(index < accepted for index in range(drafted))
        full = len(self._window) == options.window
        if full and sum(self._window) < options.min_acceptance * options.window:
            self._mute_left = options.mute_for
            self._window.clear()
