"""What a contestant is asked, and what it answers.

Boundary: values; each is one line of JSON on its way between two processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One prompt to answer.

    Attributes:
        prompt: token ids.
        max_tokens: most tokens of the answer.
        temperature: 0 is greedy; no other filter of the distribution is used.
        seed: of the random numbers.
        ends: ids that end the answer.
        prediction: what the answer may be an edited copy of, for those that can use it.
        references: documents that the answer may quote, for those that can use them.
        schema: a JSON schema that the answer keeps to; ``None`` for any text.
    """

    prompt: Sequence[int]
    max_tokens: int
    temperature: float
    seed: int
    ends: Sequence[int] = ()
    prediction: str | None = None
    references: Sequence[str] = ()
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of it. See :class:`~maglio.bench.field.line.FieldRun` for the fields."""

    tokens: Sequence[int]
    first_token_s: float
    decode_s: float
    steps: int | None = None
    drafted: int | None = None
    accepted: int | None = None


class Contestant(Protocol):
    """An engine with a method of decoding, ready to answer."""

    def answer(self, request: Request) -> Answer:
        """Answer one prompt. Whatever it raises is told, and the next one is asked."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a contestant is opened with.

    Attributes:
        model: path of the GGUF file.
        checkpoint: folder with its weights for the transformers library; empty for those that do
            not need it.
        n_ctx: context in tokens.
        threads: number of threads.
        method: ``plain``, or how to draft.
        settings: what to set, by the engine's own names.
    """

    model: str
    n_ctx: int
    threads: int
    method: str
    settings: Mapping[str, Any]
    checkpoint: str = ""


def counted(tokens: Sequence[int], widths: Sequence[int], prompt: int) -> dict[str, int]:
    """The counts of an answer by the widths of its forwards, that of the prompt first.

    Every forward gives one token that was not drafted; its other rows are drafts.

    Args:
        tokens: the answer.
        widths: rows of each forward.
        prompt: tokens of the prompt.
    """
    drafted = max(0, sum(widths) - prompt - len(widths) + 1)
    accepted = max(0, len(tokens) - len(widths))
    return {
        "steps": max(0, len(widths) - 1),
        "drafted": drafted,
        "accepted": min(accepted, drafted),
    }
