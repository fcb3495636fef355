"""Draft sources that know the answer, know nothing, or misbehave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from maglio.draft.source import Draft, DraftSource, Step


class ScriptedSource(DraftSource):
    """Proposes whatever ``draft`` makes of the true continuation of the stream.

    Args:
        stream: prompt and plain output, the truth.
        draft: called with the continuation and the number of the proposal.
    """

    def __init__(self, stream: Sequence[int], draft: Callable[[list[int], int], Any]) -> None:
        self.stream = list(stream)
        self.steps: list[Step] = []
        self.kept: list[int] = []
        self.proposals = 0
        self._draft = draft

    @property
    def seen(self) -> list[int]:
        """The stream as it was observed."""
        return [*self.kept, *(token for step in self.steps for token in step.tokens)]

    def propose(self, stream: Sequence[int], limit: int) -> Any:
        assert self.seen == list(stream)
        self.proposals += 1
        tokens = self._draft(self.stream[len(stream) :], self.proposals - 1)
        return None if tokens is None else Draft(tokens)

    def observe(self, step: Step) -> None:
        self.steps.append(step)

    def rewind(self, stream: Sequence[int]) -> None:
        self.kept, self.steps = list(stream), []


class _Lazy(list):
    """A draft that is computed, and may fail, while it is read."""

    def __init__(self, tokens: Any) -> None:
        super().__init__()
        self._tokens = tokens

    def __iter__(self) -> Any:
        return iter(self._tokens)


def perfect(stream: Sequence[int], width: int = 5) -> ScriptedSource:
    """Always right, ``width`` tokens ahead."""
    return ScriptedSource(stream, lambda truth, _: truth[:width])


def spoil(tokens: list[int], index: int, n_vocab: int) -> list[int]:
    """The same tokens with a wrong one at ``index``."""
    return [(t + 1) % n_vocab if i == index else t for i, t in enumerate(tokens)]


def adversaries(stream: Sequence[int], n_vocab: int) -> dict[str, ScriptedSource]:
    """Sources of every bad kind by name."""

    def raise_error(truth: list[int], call: int) -> list[int]:
        raise OSError("index file is gone")

    def raise_later(truth: list[int], call: int) -> list[int]:
        return raise_error(truth, call) if call == 3 else truth[:4]

    def half_a_draft(truth: list[int], call: int) -> Any:
        yield from truth[:3]
        raise_error(truth, call)

    drafts: dict[str, Callable[[list[int], int], Any]] = {
        "perfect": lambda truth, _: truth[:6],
        "garbage": lambda truth, _: spoil(truth, 0, n_vocab)[:6],
        "alternating": lambda truth, call: (truth if call % 2 else spoil(truth, 0, n_vocab))[:6],
        "wrong in the middle": lambda truth, call: spoil(truth, call % 5, n_vocab)[:6],
        "over-long": lambda truth, _: truth + [0] * 1000,
        "endless": lambda truth, _: _Lazy(iter(lambda: 7, None)),
        "empty": lambda truth, _: [],
        "nothing": lambda truth, _: None,
        "single tokens": lambda truth, _: truth[:1],
        "out of vocabulary": lambda truth, call: [*truth[: call % 4], n_vocab, -1, 2**40],
        "not numbers": lambda truth, call: [*truth[: call % 4], True, 1.0, "x", None],
        "raising": raise_error,
        "raising later": raise_later,
        "raising half-way": lambda truth, call: _Lazy(half_a_draft(truth, call)),
    }
    return {name: ScriptedSource(stream, draft) for name, draft in drafts.items()}
