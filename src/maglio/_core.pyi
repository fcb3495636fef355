"""Maglio's native core: index structures, sampling, and the CPU engine."""

from collections.abc import Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray


class Sampler:
    def __init__(self, n_vocab: int, *, temperature: float, top_k: int, top_p: float, min_p: float, repeat_penalty: float, frequency_penalty: float, presence_penalty: float, penalty_last_n: int, logit_bias: Sequence[tuple[int, float]], seed: int) -> None: ...

    def accept(self, tokens: Sequence[int]) -> None: ...

    def sample(self, row: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> int: ...

    def seek(self, position: int) -> None: ...

    def check(self) -> None: ...

    @property
    def n_vocab(self) -> int: ...

    @property
    def history_length(self) -> int: ...

    @property
    def position(self) -> int: ...

def topk_rows(rows: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], count: int) -> Annotated[NDArray[numpy.int32], dict(shape=(None, None))]:
    """
    Ids of the `count` largest logits of each row, int32 (k, count), best first, ties to the lowest id, NaN last. Takes float32 (k, vocab).
    """

def philox4x32(counter: Sequence[int], key: Sequence[int]) -> list[int]:
    """
    Ten rounds of Philox4x32 on a counter of four words under a key of two.
    """
