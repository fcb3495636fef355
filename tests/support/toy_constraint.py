"""A constraint whose rule is a hash of the tokens before, and what it makes of plain decoding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maglio.decode import Picker
from support.toy_engine import ToyEngine

_MIX = 0x9E3779B97F4A7C15


class ToyConstraint:
    """Allows about a third of the tokens; now and then a single one, which is forced.

    Args:
        n_vocab: number of token ids.
        lies: claims tokens to be forced that are not.
    """

    def __init__(self, n_vocab: int, *, lies: bool = False) -> None:
        self.n_vocab = n_vocab
        self.tokens: list[int] = []
        self._lies = lies

    @property
    def length(self) -> int:
        return len(self.tokens)

    def allowed(self, tokens: Sequence[int]) -> list[int]:
        """The tokens that may come after ``tokens``."""
        state = len(tokens)
        for token in tokens[-3:]:
            state = ((state ^ (token + 1)) * _MIX) & (2**64 - 1)
            state ^= state >> 29
        if state % 4 == 0:
            return [state // 4 % self.n_vocab]
        chosen = [t for t in range(self.n_vocab) if ((t + 1) * _MIX ^ state) >> 7 & 3 == 0]
        return chosen or [0]

    def mask(self) -> np.ndarray:
        bits = np.zeros(-(-self.n_vocab // 32) * 32, dtype=np.uint8)
        bits[self.allowed(self.tokens)] = 1
        return np.packbits(bits, bitorder="little").view(np.int32)

    def extend(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            assert token in self.allowed(self.tokens)
            self.tokens.append(token)

    def truncate(self, length: int) -> None:
        assert 0 <= length <= len(self.tokens)
        del self.tokens[length:]

    def admissible(self, tokens: Sequence[int]) -> int:
        followed = list(self.tokens)
        for n, token in enumerate(tokens):
            if token not in self.allowed(followed):
                return n
            followed.append(token)
        return len(tokens)

    def forced(self) -> list[int]:
        followed = list(self.tokens)
        found = []
        while len(only := self.allowed(followed)) == 1 or (self._lies and len(found) < 3):
            found.append(only[-1])
            followed.append(only[-1])
        return found


def masked_plainly(
    engine: ToyEngine, picker: Picker, prompt: Sequence[int], max_tokens: int
) -> list[int]:
    """What plain decoding gives when what may not come is masked: one token a forward."""
    constraint = ToyConstraint(engine.n_vocab)
    picker.extend(prompt)
    picker.begin_answer(len(prompt))
    for position in range(max_tokens):
        row = engine.row([*prompt, *constraint.tokens])
        forbidden = np.ones(engine.n_vocab, dtype=bool)
        forbidden[constraint.allowed(constraint.tokens)] = False
        row[forbidden] = -np.inf
        token = picker.pick(row, position)
        picker.extend((token,))
        constraint.extend((token,))
    return constraint.tokens
