"""Documents as indexes: drafts copied from text that the stream may quote."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from maglio._core import FrozenAutomaton
from maglio.draft.in_place import by_match, in_place_first
from maglio.draft.member import Guess, Ids, kind_of
from maglio.errors import IndexFileError, InvalidArgumentError, OutOfMemoryError
from maglio.files import replacing
from maglio.tokens import Tokens, token_array

_REWOUND_TOKENS = 1 << 16
"""How far back it can match after a rewind: reading a longer stream again would take a while."""


class ReferenceMember:
    """A place in a frozen index, which any number of streams can share.

    Args:
        name: as reported to users.
        document: the index.
        in_order: whether the stream may copy along it, so that where a copy left off is a guess.
    """

    def __init__(self, name: str, document: FrozenAutomaton, *, in_order: bool = True) -> None:
        self.name = name
        self._document = document
        self._in_order = in_order
        self._cursor = document.cursor()

    @property
    def match_length(self) -> int:
        """Tokens in the longest suffix of the stream that occurs in the document."""
        return self._cursor.match_length

    def draft(self, limit: int) -> list[int]:
        """See :class:`~maglio.draft.member.Member`."""
        return self._cursor.draft(limit)

    def guesses(self, limit: int) -> Sequence[Guess]:
        """See :class:`~maglio.draft.member.Member`."""
        kind, cursor = kind_of(self.name), self._cursor
        return (
            in_place_first(kind, cursor, limit) if self._in_order else by_match(kind, cursor, limit)
        )

    def follow(self, tokens: Ids) -> None:
        """See :class:`~maglio.draft.member.Member`."""
        self._cursor.advance_many(tokens)

    def rewind(self, stream: Ids) -> None:
        """See :class:`~maglio.draft.member.Member`."""
        self._cursor = self._document.cursor()
        self.follow(stream[-_REWOUND_TOKENS:])


def frozen(tokens: Tokens) -> FrozenAutomaton:
    """Index a document.

    Args:
        tokens: ids of the tokenizer of the model whose output may quote it.

    Raises:
        InvalidArgumentError: an id is not valid, or the document is too long.
        OutOfMemoryError: there is no memory to index it.
    """
    try:
        return FrozenAutomaton(token_array(tokens, name="reference"))
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from None
    except MemoryError as error:
        raise OutOfMemoryError(
            f"no memory to index a reference of {len(tokens)} tokens (about 150 bytes each while "
            "it is built); use a shorter one"
        ) from error


def save_index(index: FrozenAutomaton, path: Path, *, fingerprint: str) -> None:
    """Write an index file, as :func:`maglio.files.replacing` writes files.

    Args:
        index: the index.
        path: the file.
        fingerprint: of the tokenizer that its ids belong to.

    Raises:
        IndexFileError: it cannot be written; what was there before still is.
    """
    try:
        with replacing(path) as file:
            index.write(file.fileno(), fingerprint=fingerprint)
    except (OSError, ValueError) as error:  # the latter for an overlong fingerprint
        reason = getattr(error, "strerror", None) or error
        raise IndexFileError(f"index file {str(path)!r}: cannot be written: {reason}") from error
