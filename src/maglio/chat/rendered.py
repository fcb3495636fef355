"""A conversation as text and as token ids. A value: knows no template and no tokenizer."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from maglio.text.prompt_text import PromptText


@dataclass(frozen=True, slots=True)
class Rendered:
    """A conversation as text and as token ids.

    Attributes:
        text: the text.
        ids: the ids.
        cuts: where both can be cut, as (characters, ids): the ends of prompts and of answers.
    """

    text: PromptText = field(default_factory=PromptText)
    ids: tuple[int, ...] = ()
    cuts: tuple[tuple[int, int], ...] = ()

    def extended(self, text: PromptText, ids: Sequence[int]) -> Rendered:
        """Go on with ``text``, whose ids are ``ids``."""
        whole, all_ids = self.text + text, (*self.ids, *ids)
        return Rendered(whole, all_ids, (*self.cuts, (len(whole), len(all_ids))))

    def cut(self, n_cuts: int) -> Rendered:
        """The beginning up to the cut before ``cuts[n_cuts]``."""
        length, n_ids = self.cuts[n_cuts - 1] if n_cuts else (0, 0)
        return Rendered(self.text.head(length), self.ids[:n_ids], self.cuts[:n_cuts])

    def from_cut(self, index: int) -> Rendered:
        """What follows ``cuts[index]``."""
        length, n_ids = self.cuts[index]
        cuts = tuple((a - length, b - n_ids) for a, b in self.cuts[index + 1 :])
        return Rendered(self.text.tail(length), self.ids[n_ids:], cuts)

    def joined(self, more: Rendered) -> Rendered:
        """Go on with ``more``, which begins at a cut."""
        length, n_ids = len(self.text), len(self.ids)
        cuts = ((a + length, b + n_ids) for a, b in more.cuts)
        return Rendered(self.text + more.text, (*self.ids, *more.ids), (*self.cuts, *cuts))

    def cuts_within(self, text: PromptText) -> int:
        """How many cuts lie in what ``text`` begins with."""
        lengths = [length for length, _ in self.cuts]
        return bisect_left(
            range(len(lengths)),
            True,  # where the beginnings stop to be the same
            key=lambda n: not text.begins_with(self.text.head(lengths[n])),
        )

    def cut_of_ending(self, text: PromptText) -> int:
        """The first cut after which ``text`` ends as this does; there must be a cut."""
        same = _common_ending(self.text, text)
        return bisect_left(self.cuts, (len(self.text) - same, 0))


def _common_ending(one: PromptText, other: PromptText) -> int:
    """How many last characters are the same, with the same control tokens."""
    most = min(len(one), len(other))
    same = bisect_left(
        range(most), True, key=lambda n: not other.text.endswith(one.text[len(one) - n - 1 :])
    )
    n = min(len(one.control), len(other.control))
    shift = len(other) - len(one)
    for back in range(1, n + 2):
        a = one.control[-back] if back <= len(one.control) else (0, 0)
        b = other.control[-back] if back <= len(other.control) else (0, 0)
        if a != (b[0] - shift, b[1] - shift):
            same = min(same, len(one) - a[1], len(other) - b[1])
            break
    return same
