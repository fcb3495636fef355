"""The stream itself as an index: drafts copied from what was said before in it."""

from __future__ import annotations

from collections.abc import Sequence

from maglio._core import SuffixAutomaton
from maglio.checks import check_int
from maglio.draft.in_place import in_place_first
from maglio.draft.member import Guess, Ids

DEFAULT_TOKEN_CAP = 1 << 22
"""Tokens of a stream kept in reach: about 240 MB of index when full."""

REWOUND_TOKENS = 1 << 18
"""Tokens still in reach after a rewind, which has to build the index anew: some 60 ms for all."""


class ConversationMember:
    """Continues where the stream left off copying from its past, and the latest earlier occurrence
    of its longest suffix.

    If memory runs out, it forgets everything and drafts nothing from then on: an index is not a
    reason to stop a generation.

    A rewind costs nothing until the index is asked again, and then it holds the last
    :data:`REWOUND_TOKENS` of the stream that was kept.

    Args:
        token_cap: tokens to index; a full index restarts from its last quarter.

    Raises:
        InvalidArgumentError: ``token_cap`` is out of range.
    """

    name = "conversation"

    def __init__(self, *, token_cap: int = DEFAULT_TOKEN_CAP) -> None:
        check_int("token_cap", token_cap, 4, 1 << 30)
        self._token_cap = token_cap
        self._index = SuffixAutomaton(token_cap=token_cap)
        self._rewound: Ids | None = None  # what the index has yet to read

    @property
    def match_length(self) -> int:
        """Tokens in the longest suffix of the stream that also occurs earlier."""
        return self._level().match_length

    def draft(self, limit: int) -> list[int]:
        """See :class:`~maglio.draft.member.Member`."""
        return self._level().draft(limit)

    def guesses(self, limit: int) -> Sequence[Guess]:
        """See :class:`~maglio.draft.member.Member`."""
        return in_place_first(self.name, self._level(), limit)

    def follow(self, tokens: Ids) -> None:
        """See :class:`~maglio.draft.member.Member`."""
        self._level()
        self._extend(tokens)

    def rewind(self, stream: Ids) -> None:
        """See :class:`~maglio.draft.member.Member`."""
        self._index = SuffixAutomaton(token_cap=self._token_cap)
        self._rewound = stream[-REWOUND_TOKENS:].copy()

    def _level(self) -> SuffixAutomaton:
        """The index of the stream; a rewind takes effect here."""
        if self._rewound is not None:
            tokens, self._rewound = self._rewound, None
            self._extend(tokens)
        return self._index

    def _extend(self, tokens: Ids) -> None:
        try:
            self._index.extend(tokens)
        except MemoryError:
            return  # the index is disabled: it answers 0 from now on
