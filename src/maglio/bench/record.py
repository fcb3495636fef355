"""Records greedy runs of a model: ids of prompts and outputs, and the best of every row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from maglio import _core
from maglio.bench.runs_file import Run
from maglio.bench.stream import TOP
from maglio.engine.base import Logits
from maglio.engine.session import Session
from maglio.errors import ContextFullError, InvalidArgumentError

CHUNK_ROWS = 64
"""Rows of a prompt that are computed, and held, at a time."""


class _Rows:
    """The best candidates of rows as they come."""

    def __init__(self) -> None:
        self._ids: list[npt.NDArray[np.int32]] = []
        self._logits: list[npt.NDArray[np.float32]] = []

    def add(self, rows: Logits) -> int:
        """Keep the best of rows; returns the best token after the last one."""
        ids = _core.topk_rows(rows, TOP)
        self._ids.append(ids)
        self._logits.append(np.take_along_axis(rows, ids, axis=1))
        return int(ids[-1, 0])

    def ids(self) -> npt.NDArray[np.int32]:
        return np.concatenate(self._ids)

    def logits(self) -> npt.NDArray[np.float32]:
        return np.concatenate(self._logits)


def record_run(
    session: Session,
    prompt: Sequence[int],
    *,
    category: str,
    max_tokens: int,
    stop_tokens: Iterable[int] = (),
) -> Run:
    """Continue ``prompt`` greedily on an empty session, and record every row.

    Args:
        session: an empty cache of a model with at least 8 token ids.
        prompt: token ids, at least one.
        category: kind of task, for the recording.
        max_tokens: most tokens to generate, at least 1. The end of the context may come first.
        stop_tokens: ids that end the run; the last token of the output is then one.

    Raises:
        InvalidArgumentError: the prompt is empty or ``max_tokens`` under 1.
        ContextFullError: prompt and output cannot fit.
    """
    if not prompt or max_tokens < 1:
        raise InvalidArgumentError("a run needs a prompt and max_tokens of at least 1")
    if len(prompt) >= session.n_ctx:
        raise ContextFullError(
            f"the prompt of {len(prompt)} tokens leaves no room in the context of {session.n_ctx}"
        )
    stops = frozenset(stop_tokens)
    prompt_rows, output_rows = _Rows(), _Rows()
    token = 0
    for begin in range(0, len(prompt), CHUNK_ROWS):
        token = prompt_rows.add(session.forward(prompt[begin : begin + CHUNK_ROWS]))
    output = [token]
    # The row after the last token is recorded too.
    while True:
        token = output_rows.add(session.forward(output[-1:]))
        full = len(output) == max_tokens or session.length == session.n_ctx
        if full or output[-1] in stops:
            break
        output.append(token)
    return Run(
        category=category,
        prompt=np.array(prompt, dtype=np.int32),
        output=np.array(output, dtype=np.int32),
        prompt_ids=prompt_rows.ids(),
        output_ids=output_rows.ids(),
        prompt_logits=prompt_rows.logits(),
        output_logits=output_rows.logits(),
    )
