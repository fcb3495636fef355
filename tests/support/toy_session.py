"""A model small enough to reason about: logits are a hash of the tokens before."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from maglio.decode import Sampler

_MIX = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


class ToySession:
    """A session that keeps the row law by construction and records what it was asked for.

    Args:
        n_vocab: number of token ids.
        n_ctx: positions the cache can hold.
        order: how many of the last tokens a row depends on; few make a repetitive stream.
        spread: how far logits lie apart.
        can_rewind: whether truncate works.
        before_call: called with the index of each prefill or forward, may raise.
        half_way: called with it when half of the tokens are appended, may raise.
    """

    def __init__(
        self,
        n_vocab: int = 60,
        *,
        n_ctx: int = 512,
        order: int = 512,
        spread: float = 6.0,
        can_rewind: bool = True,
        before_call: Callable[[int], None] = lambda _: None,
        half_way: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.n_vocab = n_vocab
        self.n_ctx = n_ctx
        self.can_rewind = can_rewind
        self.tokens: list[int] = []
        self.calls: list[tuple[str, tuple[int, ...]]] = []
        self._order = order
        self._spread = spread
        self._before_call = before_call
        self._half_way = half_way

    @property
    def length(self) -> int:
        return len(self.tokens)

    @property
    def forwards(self) -> list[tuple[int, ...]]:
        return [tokens for name, tokens in self.calls if name == "forward"]

    def row(self, prefix: Sequence[int]) -> np.ndarray:
        state = 0
        for token in prefix[-self._order :]:
            state = ((state ^ (token + 1)) * _MIX) & _MASK
            state ^= state >> 29
        x = np.arange(1, self.n_vocab + 1, dtype=np.uint64) * np.uint64(_MIX) + np.uint64(state)
        for shift in (30, 27, 31):
            x = (x ^ (x >> np.uint64(shift))) * np.uint64(0xBF58476D1CE4E5B9)
        return (self._spread * (x >> np.uint64(40)) / 2**24).astype(np.float32)

    def prefill(self, tokens: Sequence[int]) -> np.ndarray:
        return self._append("prefill", tokens)[-1]

    def forward(self, tokens: Sequence[int]) -> np.ndarray:
        return self._append("forward", tokens)

    def truncate(self, length: int) -> None:
        assert self.can_rewind
        assert 0 <= length <= self.length
        del self.tokens[length:]

    def _append(self, name: str, tokens: Sequence[int]) -> np.ndarray:
        assert len(tokens) > 0
        assert self.length + len(tokens) <= self.n_ctx
        call = len(self.calls)
        self.calls.append((name, tuple(tokens)))
        self._before_call(call)
        rows = []
        for index, token in enumerate(tokens):
            if index == len(tokens) // 2:
                self._half_way(call)
            self.tokens.append(token)
            rows.append(self.row(self.tokens))
        return np.stack(rows)


def decode_plainly(
    session: ToySession, sampler: Sampler, prompt: Sequence[int], max_tokens: int
) -> list[int]:
    """The definition that every decoder has to agree with: one row, one sample, one token."""
    sampler.accept(list(prompt))
    row = session.prefill(prompt)
    stream = []
    while len(stream) < max_tokens:
        token = sampler.sample(row)
        sampler.accept([token])
        stream.append(token)
        if len(stream) == max_tokens or session.length == session.n_ctx:
            break
        row = session.forward([token])[0]
    return stream
