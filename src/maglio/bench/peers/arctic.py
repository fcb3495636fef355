"""ArcticInference's own suffix tree (C++), where the package ``arctic-inference`` is installed.

Boundary: finds it and gives it the face that :mod:`maglio.bench.peers.suffix_decoding` asks for.
The package's build wants torch; its suffix decoding alone needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Protocol

_MODULE = "arctic_inference.suffix_decoding._C"


class _Draft(Protocol):
    score: float
    token_ids: list[int]


class SuffixTree(Protocol):
    """What is asked of the package's tree."""

    def extend(self, sequence: int, tokens: list[int], /) -> None:
        """Add tokens to a sequence."""
        ...

    def speculate(
        self,
        context: list[int],
        max_tokens: int,
        factor: float,
        offset: float,
        min_probability: float,
        use_tree: bool,
        /,
    ) -> _Draft:
        """Draft after ``context``."""
        ...


def find_suffix_tree() -> Callable[[int], SuffixTree] | None:
    """The class of its suffix tree, which takes the tree's depth; ``None`` if not installed."""
    try:
        tree: Callable[[int], SuffixTree] = import_module(_MODULE).SuffixTree
    except ImportError:
        return None
    return tree


class ArcticCorpus:
    """Token sequences in one suffix tree.

    Args:
        tree: the tree.
        factor: most draft tokens per matched one.
        min_probability: of the drafted path.
    """

    def __init__(self, tree: SuffixTree, *, factor: float, min_probability: float) -> None:
        self._tree = tree
        self._factor = factor
        self._min_probability = min_probability
        self._sequence = 0

    def begin(self) -> None:
        """What is added from now on follows nothing."""
        self._sequence += 1

    def extend(self, tokens: Sequence[int]) -> None:
        """Add tokens to the present sequence."""
        self._tree.extend(self._sequence, list(tokens))

    def speculate(self, end: Sequence[int], limit: int) -> tuple[float, list[int]]:
        """The best score and its draft after a stream that ends with ``end``."""
        if not end:
            return 0.0, []
        draft = self._tree.speculate(
            list(end), limit, self._factor, 0.0, self._min_probability, False
        )
        return float(draft.score), list(draft.token_ids)
