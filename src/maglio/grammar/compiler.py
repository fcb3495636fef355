"""Grammars compiled for one model, and kept.

Boundary: the only place that hands a grammar's source to llguidance. The package is needed when
the first grammar is started, and not before.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from maglio.checks import check_int
from maglio.decode.constraint import Constraint
from maglio.errors import GrammarError
from maglio.grammar.value import Grammar
from maglio.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from llguidance import LLMatcher

    from maglio.grammar.vocabulary import GrammarVocabulary

MAX_KEPT = 128
"""Most compiled grammars that are kept."""
MAX_KEPT_SOURCE = 8 << 20
"""Most bytes of source that all kept grammars have."""


class GrammarCompiler:
    """Starts grammars for one model; may be used from several threads.

    Compiled grammars are kept, the least recently used is dropped first. Keeping changes no mask.

    Args:
        tokenizer: the model's.
        n_vocab: ids that the engine has a logit for.
    """

    def __init__(self, tokenizer: Tokenizer, n_vocab: int) -> None:
        check_int("n_vocab", n_vocab, 1, 2**31 - 1)
        self._tokenizer = tokenizer
        self._n_vocab = n_vocab
        self._lock = Lock()
        self._vocabulary: GrammarVocabulary | None = None
        self._kept: OrderedDict[Grammar, LLMatcher] = OrderedDict()
        self._kept_source = 0

    def start(self, grammar: Grammar) -> Constraint:
        """Return what keeps a new generation to a grammar.

        Raises:
            GrammarError: the grammar is not valid, uses what is not supported, or goes over a
                limit; or llguidance is not installed.
        """
        try:
            from maglio.grammar.constraint import GrammarConstraint
            from maglio.grammar.source import compiled
            from maglio.grammar.vocabulary import GrammarVocabulary
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "llguidance":
                raise
            raise GrammarError(
                'grammars need the package llguidance: pip install "maglio[server]"'
            ) from None
        with self._lock:
            if self._vocabulary is None:
                self._vocabulary = GrammarVocabulary(self._tokenizer, self._n_vocab)
            vocabulary = self._vocabulary
            root = self._kept.get(grammar)
            if root is not None:
                self._kept.move_to_end(grammar)
        if root is None:
            root = compiled(grammar, vocabulary)
            self._keep(grammar, root)
        return GrammarConstraint(root, vocabulary, partial(compiled, grammar, vocabulary))

    def _keep(self, grammar: Grammar, root: LLMatcher) -> None:
        with self._lock:
            if grammar in self._kept:  # another thread was as quick
                return
            self._kept[grammar] = root
            self._kept_source += _size(grammar)
            while len(self._kept) > MAX_KEPT or self._kept_source > MAX_KEPT_SOURCE:
                dropped, _ = self._kept.popitem(last=False)
                self._kept_source -= _size(dropped)


def _size(grammar: Grammar) -> int:
    return len(grammar.source.encode()) + len(grammar.opening.encode())
