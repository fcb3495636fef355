"""Drafts copied from the conversation itself, found by a live suffix automaton.

Boundary: accounting and policy of one source. The structures are native (``maglio._core``), and
choosing between sources is the cascade's business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

from maglio._core import FrozenAutomaton, FrozenCursor, SuffixAutomaton
from maglio.draft.source import SourceCounts
from maglio.errors import InvalidArgumentError
from maglio.tokens import token_array

__all__ = [
    "ConversationSource",
    "FrozenAutomaton",
    "FrozenCursor",
    "SuffixAutomaton",
    "common_prefix",
    "draft_budget",
]

DEFAULT_TOKEN_CAP = 1 << 22
"""Tokens of a conversation kept in reach: about 240 MB of index when full."""


def draft_budget(match_length: int) -> int:
    """Draft tokens that a match is worth: two for each matched token, and two more."""
    return 2 * (1 + match_length)


def common_prefix(draft: Sequence[int], committed: Sequence[int]) -> int:
    """How many tokens of ``draft`` were accepted, judging by what was committed."""
    pairs = zip(draft, committed, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


class ConversationSource:
    """Proposes what followed the latest earlier occurrence of the stream's longest suffix.

    If memory runs out, the source forgets everything and drafts nothing from then on: an index is
    no reason to stop a generation.

    Args:
        min_match: shortest match, in tokens, worth drafting from.
        token_cap: tokens to index; a full index restarts from its last quarter.

    Raises:
        InvalidArgumentError: if ``min_match`` is under 1 or ``token_cap`` out of range.
    """

    label = "conversation"

    def __init__(self, *, min_match: int = 2, token_cap: int = DEFAULT_TOKEN_CAP) -> None:
        if min_match < 1:
            raise InvalidArgumentError(f"min_match must be at least 1, got {min_match}")
        try:
            self._index = SuffixAutomaton(token_cap=token_cap)
        except (ValueError, TypeError) as error:
            raise InvalidArgumentError(str(error)) from error
        self._token_cap = token_cap
        self._min_match = min_match
        self._pending: list[int] = []
        self._drafted = 0
        self._accepted = 0

    @property
    def index(self) -> SuffixAutomaton:
        """The native index, to read."""
        return self._index

    @property
    def match_length(self) -> int:
        """Tokens in the longest suffix of the stream that also occurs earlier."""
        return self._index.match_length

    @property
    def drafted_by(self) -> str:
        """The label: this source has no parts."""
        return self.label

    def counts(self) -> Mapping[str, SourceCounts]:
        """Draft tokens proposed and accepted up to the last ``observe``."""
        return {self.label: SourceCounts(drafted=self._drafted, accepted=self._accepted)}

    def suggest(self, context: Sequence[int], limit: int) -> Sequence[int]:
        """Propose at most ``limit`` tokens; ``context`` must be what was observed so far."""
        match = self._index.match_length
        if match < self._min_match or limit < 1:
            self._pending = []
        else:
            self._pending = self._index.draft(min(limit, draft_budget(match)))
        return self._pending

    def observe(self, committed: Sequence[int]) -> None:
        """Account for the pending draft, and index the tokens.

        Raises:
            InvalidArgumentError: if an id is not one; nothing is then indexed.
        """
        tokens = token_array(committed)
        self._drafted += len(self._pending)
        self._accepted += common_prefix(self._pending, committed)
        self._pending = []
        try:
            self._index.extend(tokens)
        except MemoryError:
            return  # the index has poisoned itself and answers 0 from now on

    def rewind(self, kept: Sequence[int]) -> None:
        """The stream is now ``kept``: index that one instead."""
        self._pending = []
        self._index = SuffixAutomaton(token_cap=self._token_cap)
        self.observe(kept)

    def truncate_pending(self, n: int) -> None:
        """Count only the first ``n`` tokens of the last suggestion."""
        self._pending = self._pending[: max(n, 0)]
