"""A text that the answer is expected to be, or to be an edited copy of, as drafts.

Boundary: one member of the cascade, following one answer. The text is a guess like any other draft
and never trusted.

The answer is expected to begin where the text begins, and to go on where it left off. When it says
something else, the place is lost. It is then found where the last tokens of the answer are in the
text, two of them at least: the longest agreement wins, and of equal ones the nearest, ahead before
behind. Edits keep the order of what they keep, so the nearest is mostly right where a line occurs
many times. Until it is found, one guess is made: that a single token was replaced.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence

from maglio.draft.member import Guess, Ids

NAME = "prediction"

# How the place was found: the class of evidence (:data:`maglio.draft.calibration.PRIORS`).
_IN_ORDER, _FOUND, _SKIPPED = 0, 1, 2

_PAIR = 2
_COMPARED = 32
"""Tokens before a place that are compared, at most."""
_PLACES = 32
"""Occurrences of a pair that are looked at on each side of the place that was lost."""


class PredictedText:
    """A predicted text with a table of where its pairs of tokens are; several answers may share it.

    Args:
        tokens: its token ids.
    """

    def __init__(self, tokens: Ids) -> None:
        self.tokens: list[int] = tokens.tolist()
        self._places: dict[tuple[int, int], list[int]] = defaultdict(list)
        pairs = zip(self.tokens, self.tokens[1:], strict=False)
        for place, pair in enumerate(pairs, start=_PAIR):
            self._places[pair].append(place)

    def __len__(self) -> int:
        """Number of tokens."""
        return len(self.tokens)

    def places(self, one: int, other: int) -> list[int]:
        """Where the text goes on after these two tokens, ascending."""
        return self._places.get((one, other), [])


class PredictionMember:
    """Follows an answer along a predicted text.

    Args:
        text: the prediction, of at least one token.
        begin: how many tokens of the stream come before the answer.
        seen: how many of them are in the past.
    """

    name = NAME

    def __init__(self, text: PredictedText, begin: int, *, seen: int = 0) -> None:
        self._text = text.tokens
        self._find_places = text.places
        self._begin = begin
        self._restart(seen)

    def _restart(self, seen: int) -> None:
        self._ahead = (
            self._begin - seen
        )  # tokens of the stream before the answer that are still to come
        self._said: list[int] = []  # the end of the answer
        self._place = 0  # where the text is expected to go on
        self._agreed = 0  # tokens that agree up to there
        self._way = _IN_ORDER
        self._last = 0  # the last place that was right

    @property
    def match_length(self) -> int:
        """Tokens that agree, and one for the expectation itself; 0 where nothing is expected."""
        if self._ahead > 0 or self._place >= len(self._text):
            return 0
        return 1 + self._agreed

    def draft(self, limit: int) -> list[int]:
        """See :class:`~maglio.draft.member.Member`."""
        return self._text[self._place : self._place + limit] if self.match_length else []

    def guesses(self, limit: int) -> Sequence[Guess]:
        """See :class:`~maglio.draft.member.Member`; the evidence is how the place was found."""
        tokens = self.draft(limit)
        if not tokens:
            return ()
        return (Guess(NAME, self.match_length, tokens, bytes([self._way]) * len(tokens)),)

    def follow(self, tokens: Ids) -> None:
        """See :class:`~maglio.draft.member.Member`."""
        skipped = min(self._ahead, len(tokens))
        self._ahead -= skipped
        for token in tokens[skipped:].tolist():
            self._step(token)

    def rewind(self, stream: Ids) -> None:
        """See :class:`~maglio.draft.member.Member`."""
        self._restart(0)
        self.follow(stream)

    def _step(self, token: int) -> None:
        self._said.append(token)
        if len(self._said) > 2 * _COMPARED:
            del self._said[:-_COMPARED]
        if self._place < len(self._text) and self._text[self._place] == token:
            self._place += 1
            self._agreed += 1
            self._last = self._place
            return
        self._find()

    def _find(self) -> None:
        """The text was left: look for where the answer is in it now."""
        best, length = None, 1
        for place in self._near():
            agreed = self._agreement(place)
            if agreed > length:
                best, length = place, agreed
        if best is not None:
            self._place, self._agreed, self._way, self._last = best, length, _FOUND, best
        elif self._agreed > 0:  # perhaps one token was replaced
            self._place, self._agreed, self._way = self._place + 1, 0, _SKIPPED
        else:
            self._place = len(self._text)  # nothing is expected until it is found again

    def _near(self) -> Iterable[int]:
        """Places behind the last two tokens: ahead of the last right one, then behind it."""
        if len(self._said) < _PAIR:
            return ()
        places = self._find_places(self._said[-2], self._said[-1])
        middle = bisect_right(places, self._last)
        ahead = places[middle : middle + _PLACES]
        return (*ahead, *reversed(places[max(0, middle - _PLACES) : middle]))

    def _agreement(self, place: int) -> int:
        """How many of the last tokens are those before ``place``."""
        said, text = self._said, self._text
        most = min(len(said), place, _COMPARED)
        agreed = 0
        while agreed < most and said[-1 - agreed] == text[place - 1 - agreed]:
            agreed += 1
        return agreed
