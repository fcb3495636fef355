"""A compiled grammar that follows one generation.

Boundary: llguidance's matcher, made to keep the promises of ``decode/constraint.py``. The library's
traps are dealt with here and nowhere else: its errors are kept and not raised, it cannot go back
over an end token, it finds valid what its masks do not allow, and copies of a matcher use up their
limits together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from llguidance import LLMatcher
from numpy.typing import NDArray

from maglio.errors import GrammarError, InvalidArgumentError
from maglio.grammar.vocabulary import GrammarVocabulary, unpacked

_DEAD_END = "NoExtensionBias"
_MAX_FORCED = 64  # tokens; more are drafted when these stand


class GrammarConstraint:
    """Follows generated tokens and says which may come next.

    Text that is certain is split as the tokenizer would, other text in any way. A token that ends a
    generation may come where the grammar is complete, and where nothing else may.

    What other generations and drafts have asked of copies of ``root`` counts towards the limits of
    all of them. So where a limit is met, this goes on with a matcher that nobody else uses, not for
    drafts either. Whether a generation fails then depends on nothing but its tokens.

    Args:
        root: the compiled grammar at its beginning; it is copied and not changed.
        vocabulary: the model's.
        compile_again: returns the same as ``root``, sharing nothing with it.
    """

    def __init__(
        self,
        root: LLMatcher,
        vocabulary: GrammarVocabulary,
        compile_again: Callable[[], LLMatcher],
    ) -> None:
        self._root = root
        self._vocabulary = vocabulary
        self._compile_again = compile_again
        self._is_alone = False
        self._restart()

    def _restart(self) -> None:
        self._is_torn = True  # whether an interrupt came in the middle of a change
        self._tokens: list[int] = []
        self._n_text = 0  # those before the first that ends
        self._matcher = self._root.deep_copy()
        self._mask: NDArray[np.int32] | None = None
        self._is_torn = False

    @property
    def length(self) -> int:
        """Generated tokens it has followed."""
        if self._is_torn:
            self._restart()
        return len(self._tokens)

    def mask(self) -> NDArray[np.int32]:
        """Which tokens may come next: int32 ``(ceil(n_vocab / 32),)``; the caller's.

        Raises:
            GrammarError: the grammar went over a limit.
        """
        if self._mask is None:
            try:
                self._mask = self._next(self._matcher, ended=self._has_ended)
            except GrammarError:
                self._leave_others()
                self._mask = self._next(self._matcher, ended=self._has_ended)
            if self._matcher.is_error():
                self._matcher = self._replayed(self._n_text)
        return self._mask.copy()

    def extend(self, tokens: Sequence[int]) -> None:
        """Follow more tokens.

        Raises:
            InvalidArgumentError: one of them may not come; none is followed then.
            GrammarError: the grammar went over a limit.
        """
        admissible = self._n_admissible(tokens)
        if admissible < len(tokens) and not self._is_alone:  # a limit makes tokens impossible too
            self._leave_others()
            admissible = self._n_admissible(tokens)
        if admissible < len(tokens):
            raise InvalidArgumentError(
                f"token {tokens[admissible]} may not come next under the grammar "
                f"(after {len(self._tokens) + admissible} tokens)"
            )
        self._is_torn = True
        text = self._up_to_an_end(tokens) if not self._has_ended else []
        try:
            _consume(self._matcher, text)
        except GrammarError:
            self._leave_others()
            _consume(self._matcher, text)
        self._n_text += len(text)
        self._tokens += tokens
        self._mask = None
        self._is_torn = False

    def truncate(self, length: int) -> None:
        """Forget all but the first ``length`` tokens."""
        if length >= self.length:
            return
        self._is_torn = True
        dropped = max(0, self._n_text - length)
        self._n_text -= dropped
        del self._tokens[length:]
        self._mask = None
        if dropped and not self._matcher.rollback(dropped):
            self._matcher = self._replayed(self._n_text)
        self._is_torn = False

    def admissible(self, tokens: Sequence[int]) -> int:
        """How many of the first ``tokens`` may follow, as far as is known; changes nothing."""
        if self._is_alone:
            return 0
        try:
            return self._n_admissible(tokens)
        except GrammarError:
            self._leave_others()
            return 0

    def _n_admissible(self, tokens: Sequence[int]) -> int:
        if len(tokens) == 1 and self._mask is not None:
            return int(_allows(self._mask, tokens[0]))
        tokens = tokens[: self._vocabulary.n_usable(tokens)]
        text = self._up_to_an_end(tokens) if not self._has_ended else []
        if text:
            n = self._matcher.validate_tokens(list(text))
            _check(self._matcher)
            n = self._as_forced(text[:n])
            if n < len(text):
                return n
        ends = self._n_ends(tokens[len(text) :])
        return len(text) + (ends if ends and self._may_end_after(text, tokens[len(text)]) else 0)

    def forced(self) -> list[int]:
        """Tokens that must come next, split as the tokenizer would; empty if none are known."""
        if self._has_ended or self._is_alone:
            return []
        try:
            return self._forced()
        except GrammarError:
            self._leave_others()
            return []

    def _forced(self) -> list[int]:
        forced = self._matcher.compute_ff_tokens()[:_MAX_FORCED]
        _check(self._matcher)
        if forced:
            n = self._matcher.validate_tokens(forced)
            _check(self._matcher)
            return forced[:n]
        only = unpacked(self.mask())
        return only.tolist() if len(only) == 1 else []

    def _as_forced(self, tokens: Sequence[int]) -> int:
        """How many of the first tokens are split as is certain text has to be."""
        probe = self._matcher.deep_copy()
        for i, token in enumerate(tokens):
            forced = probe.compute_ff_tokens()
            _check(probe)
            if forced and forced[0] != token:
                return i
            _consume(probe, [token])
        return len(tokens)

    @property
    def _has_ended(self) -> bool:
        return self._n_text < len(self._tokens)

    def _up_to_an_end(self, tokens: Sequence[int]) -> Sequence[int]:
        ends = self._vocabulary.end_ids
        return tokens[: next((i for i, token in enumerate(tokens) if token in ends), len(tokens))]

    def _n_ends(self, tokens: Sequence[int]) -> int:
        ends = self._vocabulary.end_ids
        return next((i for i, token in enumerate(tokens) if token not in ends), len(tokens))

    def _may_end_after(self, text: Sequence[int], end: int) -> bool:
        if self._has_ended:
            return True
        probe = self._matcher.deep_copy()
        _consume(probe, text)
        if probe.is_accepting():
            return True
        return _allows(self._next(probe, ended=False), end)

    def _next(self, matcher: LLMatcher, *, ended: bool) -> NDArray[np.int32]:
        """Return the mask in a matcher's state, which is spoilt where nothing may follow."""
        vocabulary = self._vocabulary
        if ended or matcher.is_stopped():
            return vocabulary.ends
        mask = np.zeros_like(vocabulary.ends)
        matcher.unsafe_compute_mask_ptr(mask.ctypes.data, mask.nbytes)
        if matcher.is_error():
            if not matcher.get_error().startswith(_DEAD_END):
                _check(matcher)
            return vocabulary.ends
        mask &= vocabulary.usable
        return mask if mask.any() else vocabulary.ends

    def _leave_others(self) -> None:
        """Go on with a matcher whose limits nobody else uses up.

        Raises:
            GrammarError: it has done so before.
        """
        if self._is_alone:
            _check(self._matcher)
            return
        self._root = self._compile_again()
        self._is_alone = True
        self._matcher = self._replayed(self._n_text)

    def _replayed(self, length: int) -> LLMatcher:
        matcher = self._root.deep_copy()
        _consume(matcher, self._tokens[:length])
        return matcher


def _allows(mask: NDArray[np.int32], token: int) -> bool:
    return 0 <= token < 32 * len(mask) and bool(mask[token // 32] >> (token % 32) & 1)


def _consume(matcher: LLMatcher, tokens: Sequence[int]) -> None:
    if tokens:
        matcher.consume_tokens(list(tokens))
        _check(matcher)


def _check(matcher: LLMatcher) -> None:
    """Raise the error that a matcher keeps."""
    if matcher.is_error():
        raise GrammarError(f"the grammar cannot be followed: {message_of(matcher)}")


def message_of(matcher: LLMatcher) -> str:
    """Return the library's message, without what it adds for its own developers."""
    return matcher.get_error().partition("\n<")[0].strip()[:2000]
