"""The documents that a conversation drafts from: as they were given, and as indexes.

Boundary: keeps them and hands them to draft sources. What a reference can be is told by
:mod:`maglio.references`.
"""

from __future__ import annotations

from pathlib import Path

from maglio._core import FrozenAutomaton
from maglio.draft.cascade import Cascade
from maglio.draft.source import DraftSource
from maglio.errors import InvalidArgumentError
from maglio.references import Reference, index_reference
from maglio.text import Tokenizer


class ReferenceShelf:
    """References in the order in which they were given.

    Args:
        tokenizer: the model's.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._documents: list[FrozenAutomaton] = []
        self._origins: list[Reference] = []

    @property
    def origins(self) -> tuple[Reference, ...]:
        """The references as they were given."""
        return tuple(self._origins)

    def copy(self) -> ReferenceShelf:
        """The same references, to go on from."""
        other = ReferenceShelf(self._tokenizer)
        other._documents = list(self._documents)
        other._origins = list(self._origins)
        return other

    def add(self, reference: Reference, source: DraftSource | None) -> None:
        """Index a reference, and tell the source that drafts now, if any.

        Raises:
            MaglioError: it cannot be indexed, or the source takes none; nothing is then kept.
        """
        document = index_reference(reference, self._tokenizer)
        if source is not None:
            _taking(source).add_reference(document)
        self._documents.append(document)
        self._origins.append(reference)

    def clear(self, source: DraftSource | None) -> None:
        """Forget all references, and have the source forget them."""
        self._documents.clear()
        self._origins.clear()
        if isinstance(source, Cascade):
            source.clear_references()

    def tell(self, source: DraftSource) -> None:
        """Hand everything to a source that knows nothing yet.

        Raises:
            InvalidArgumentError: there are references, and the source takes none.
        """
        if isinstance(source, Cascade):
            source.clear_references()  # of an earlier stream, if it had one
        for document in self._documents:
            _taking(source).add_reference(document)

    def savable(self) -> tuple[Path | str | tuple[int, ...], ...]:
        """The references as they can be saved: paths, texts, token ids.

        Raises:
            InvalidArgumentError: one was given as an index, which only its file could bring back.
        """
        return tuple(map(_savable, self._origins))


def _taking(source: DraftSource) -> Cascade:
    if not isinstance(source, Cascade):
        raise InvalidArgumentError(
            f"{type(source).__name__}, the draft source of this conversation, takes no references"
        )
    return source


def _savable(origin: Reference) -> Path | str | tuple[int, ...]:
    if isinstance(origin, FrozenAutomaton):
        raise InvalidArgumentError(
            "a reference was given as an index and cannot be saved with the conversation; give "
            "the path of its file instead"
        )
    if isinstance(origin, Path):
        return origin.absolute()
    return origin if isinstance(origin, str) else tuple(map(int, origin))
