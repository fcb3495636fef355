"""A twin of what vLLM's V1 runner does around a draft source: rows that move, and a verification.

The twin has a row per request in one array of token ids, which it fills, moves and reuses as vLLM's
input batch does. Its model is a script: each request has the text that it will say. A draft is
verified as vLLM's rejection sampler does it with greedy rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

CONTEXT = 512
N_VOCAB = 1000


def config(
    *,
    n_drafts: int = 8,
    context: int = CONTEXT,
    device: str = "cpu",
    backend: str = "mp",
    hybrid: bool = False,
    additional: Any = None,
    **options: Any,
) -> SimpleNamespace:
    """What of vLLM's configuration a draft source reads; ``options`` are ours."""
    model = SimpleNamespace(max_model_len=context, get_vocab_size=lambda: N_VOCAB, is_hybrid=hybrid)
    return SimpleNamespace(
        speculative_config=SimpleNamespace(num_speculative_tokens=n_drafts),
        model_config=model,
        device_config=SimpleNamespace(device_type=device),
        parallel_config=SimpleNamespace(distributed_executor_backend=backend),
        additional_config={"maglio": options} if additional is None else additional,
    )


class Scripted:
    """A request, and all that it will say."""

    def __init__(self, name: str, prompt: Sequence[int], says: Sequence[int]) -> None:
        self.name = name
        self.tokens = list(prompt)
        self.n_prompt = len(prompt)
        self.says = list(says)
        self.draft: list[int] = []
        self.computed = False  # whether its prompt is in the cache

    @property
    def said(self) -> list[int]:
        return self.tokens[self.n_prompt :]

    @property
    def left(self) -> list[int]:
        return self.says[len(self.said) :]


class Twin:
    """Runs requests step by step with a draft source.

    ``seconds`` is what the clock gains in a step of so many rows.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        settings: SimpleNamespace,
        *,
        rows: int = 8,
        seconds: Callable[[int, int], float] = lambda rows, requests: 1.0,
    ) -> None:
        self.now = 0.0
        self.seconds = seconds
        self.proposer = make(settings, clock=lambda: self.now)
        self.n_drafts = settings.speculative_config.num_speculative_tokens
        self.context = settings.model_config.max_model_len
        self.token_ids = np.zeros((rows, self.context), dtype=np.int32)
        self.n_tokens = np.zeros(rows, dtype=np.int32)
        self.rows: list[Scripted] = []
        self.waiting: list[Scripted] = []
        self.finished: list[Scripted] = []
        self.steps = self.drafted = self.accepted = 0
        self.cut = self.n_drafts  # the scheduler verifies no more of a draft
        self.last_drafts: list[list[int]] = []

    def ids(self) -> list[str]:
        return [request.name for request in self.rows]

    def add(self, *requests: Scripted) -> None:
        """Put requests into rows behind the others."""
        for request in requests:
            place = len(self.rows)
            self.rows.append(request)
            self._write(place, request)

    def remove(self, request: Scripted) -> None:
        """Free a row as vLLM does: the last request moves into it."""
        place = self.rows.index(request)
        last = self.rows.pop()
        if last is not request:
            self.rows[place] = last
            self._write(place, last)

    def swap(self, first: int, second: int) -> None:
        """Let two requests change rows."""
        rows = self.rows
        rows[first], rows[second] = rows[second], rows[first]
        self._write(first, rows[first])
        self._write(second, rows[second])

    def preempt(self, request: Scripted) -> None:
        """Take a request out; ``add`` brings it back, and its cache is computed again."""
        self.remove(request)
        request.draft, request.computed = [], False

    def step(self, *, reading: Sequence[Scripted] = ()) -> None:
        """One forward. Requests in ``reading`` are still having their prompts read."""
        sampled = [[] if r in reading else self._verified(r) for r in self.rows]
        n_rows = sum(1 + len(r.draft) for r in self.rows)
        self.now += self.seconds(n_rows, len(self.rows))
        self.steps += 1
        for place, (request, new) in enumerate(zip(self.rows, sampled, strict=True)):
            if new:
                request.computed = True
                request.tokens += new
                self._write(place, request)
        drafts = self.proposer.propose(
            [list(new) for new in sampled], self.n_tokens, self.token_ids, slot_mappings=None
        )
        assert len(drafts) == len(self.rows)
        self.last_drafts = drafts
        for request, draft in zip(self.rows, drafts, strict=True):
            assert len(draft) <= self.n_drafts
            assert len(request.tokens) + len(draft) < self.context or not draft
            assert all(type(token) is int and 0 <= token < N_VOCAB for token in draft)
            request.draft = draft[: self.cut]

    def run(self, most: int = 10_000) -> None:
        """Step until all have said what they had to; rows are freed as requests end."""
        for _ in range(most):
            for request in [r for r in self.rows if not r.left]:
                self.remove(request)
                self.finished.append(request)
            if not self.rows:
                return
            self.step()
        raise AssertionError("the requests do not end")

    def _verified(self, request: Scripted) -> list[int]:
        """What a step brings: the draft as far as it is right, and one token more."""
        if not request.computed:
            request.draft = []
        left = request.left or [0]  # one that has ended goes on with something
        new = []
        for token, true in zip(request.draft, left, strict=False):
            new.append(true)
            if token != true:
                break
            self.accepted += 1
        else:
            if len(new) < len(left):
                new.append(left[len(new)])
        self.drafted += len(request.draft)
        return new[: self.context - len(request.tokens)]

    def _write(self, place: int, request: Scripted) -> None:
        self.token_ids[place, :] = -7  # what was there before must not be read
        self.token_ids[place, : len(request.tokens)] = request.tokens
        self.n_tokens[place] = len(request.tokens)
