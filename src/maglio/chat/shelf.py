"""The documents that a conversation drafts from: as they were given, and as indexes.

Boundary: keeps them and hands them to draft sources. What a reference can be is told by
:mod:`maglio.references`.
"""

from __future__ import annotations

from pathlib import Path

from maglio.draft.suffix import FrozenAutomaton
from maglio.draft.turn_gate import TurnGate
from maglio.errors import InvalidArgumentError
from maglio.references import Reference, index_reference
from maglio.text import Tokenizer


class ReferenceShelf:
    """References in the order in which they were given.

    Args:
        tokenizer: the model's.
        past: an index of past answers, which belongs to no one reference and is never cleared.
    """

    def __init__(self, tokenizer: Tokenizer, past: FrozenAutomaton | None) -> None:
        self._tokenizer = tokenizer
        self._past = past
        self._documents: list[FrozenAutomaton] = []
        self._origins: list[Reference] = []

    @property
    def origins(self) -> tuple[Reference, ...]:
        """The references as they were given."""
        return tuple(self._origins)

    def add(self, reference: Reference, source: TurnGate | None) -> None:
        """Index a reference, and tell the source that drafts now, if any.

        Raises:
            MaglioError: it cannot be indexed, or the source takes none; nothing is then kept.
        """
        document = index_reference(reference, self._tokenizer)
        if source is not None:
            source.add_reference(document)
        self._documents.append(document)
        self._origins.append(reference)

    def clear(self, source: TurnGate | None) -> None:
        """Forget all references, and have the source forget them."""
        self._documents.clear()
        self._origins.clear()
        if source is not None:
            source.clear_references()
            self.tell(source)

    def tell(self, source: TurnGate) -> None:
        """Hand everything to a source that knows nothing yet."""
        if self._past is not None:
            source.add_reference(self._past, name="reference:warm")
        for document in self._documents:
            source.add_reference(document)

    def savable(self) -> tuple[Path | str | tuple[int, ...], ...]:
        """The references as they can be saved: paths, texts, token ids.

        Raises:
            InvalidArgumentError: one was given as an index, which only its file could bring back.
        """
        return tuple(map(_savable, self._origins))


def _savable(origin: Reference) -> Path | str | tuple[int, ...]:
    if isinstance(origin, FrozenAutomaton):
        raise InvalidArgumentError(
            "a reference was given as an index and cannot be saved with the conversation; give "
            "the path of its file instead"
        )
    if isinstance(origin, Path):
        return origin.absolute()
    return origin if isinstance(origin, str) else tuple(map(int, origin))
