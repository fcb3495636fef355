"""What the lines of a file of results say: the values of ``maglio bench field``.

The first line says what is compared (:class:`Header`). Then comes one line for each run of a prompt
(:class:`FieldRun`), and at a contestant's end its peak of memory (:class:`PeakMemory`). Lines of
growth curves (:class:`GrowthPoint`) may follow.

Boundary: values. Knows no file, runs nothing, and judges nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FieldModel:
    """The model file that all contestants run.

    Attributes:
        name: of the file.
        bytes: its size.
        digest: SHA-256 of its bytes, in hexadecimal.
    """

    name: str
    bytes: int
    digest: str


@dataclass(frozen=True, slots=True)
class FieldMachine:
    """The machine that ran them.

    Attributes:
        cpu: name of the processor.
        cores: physical cores that the process may use.
        isa: instruction sets that Maglio's kernels use, such as ``avx2``.
        memory_gb_per_s: 10^9 bytes read from memory per second by all threads; ``None`` if it was
            not measured.
    """

    cpu: str
    cores: int
    isa: str
    memory_gb_per_s: float | None


@dataclass(frozen=True, slots=True)
class Contestant:
    """An engine with a method of decoding.

    Attributes:
        name: unique in the file.
        engine: such as ``maglio``, ``llama.cpp`` or ``transformers``.
        method: ``plain``, or how it drafts.
        settings: what was set, by the engine's own names.
        version: of the engine; empty if it is absent.
        absent: why it did not take part, and how to install it; ``None`` if it did.
    """

    name: str
    engine: str
    method: str
    settings: Mapping[str, Any]
    version: str
    absent: str | None

    @property
    def is_plain(self) -> bool:
        """Whether it decodes token by token, as the others of its engine are compared with."""
        return self.method == "plain"


@dataclass(frozen=True, slots=True)
class FieldTask:
    """A kind of prompts.

    Attributes:
        name: unique in the file.
        data: where the prompts come from: ``built in``, or the name of a file.
        prompts: how many.
        expected: what to expect of drafting here, in one sentence.
    """

    name: str
    data: str
    prompts: int
    expected: str


@dataclass(frozen=True, slots=True)
class Header:
    """What is compared.

    Attributes:
        model: the model file.
        machine: what ran it.
        threads: threads of every contestant.
        n_ctx: context in tokens, which decides where long prompts are cut.
        max_tokens: most tokens of a run.
        rounds: how often each contestant answers each prompt at each temperature.
        started: when the file was begun, in ISO 8601.
        contestants: in the order of reports; absent ones too.
        tasks: in the order of reports.
    """

    model: FieldModel
    machine: FieldMachine
    threads: int
    n_ctx: int
    max_tokens: int
    rounds: int
    started: str
    contestants: tuple[Contestant, ...]
    tasks: tuple[FieldTask, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRun:
    """One run of a prompt.

    Attributes:
        task: name of the task.
        prompt: the prompt's name in its task.
        round: from 0.
        contestant: name of the contestant.
        temperature: 0 is greedy.
        tokens: tokens generated, the first and the one that ends the answer included.
        decode_s: seconds from the first token to the last: :attr:`decoded` tokens came in them.
        first_token_s: seconds from the request to the first token.
        steps: forwards of decoding, the prompt's not counted; ``None`` where the engine does not
            say.
        drafted: draft tokens that were verified; ``None`` where the engine does not say.
        accepted: and how many were right.
        equal: whether the tokens are those of the same engine's plain decoding, in the same round;
            ``None`` if there is no such run.
        digest: SHA-256 of the token ids (int32, little-endian), the first 16 digits; empty after
            an error.
        error: why there is no result; then all numbers are 0 or ``None``.
    """

    task: str
    prompt: str
    round: int
    contestant: str
    temperature: float
    tokens: int
    decode_s: float
    first_token_s: float
    steps: int | None
    drafted: int | None
    accepted: int | None
    equal: bool | None
    digest: str
    error: str | None

    @property
    def decoded(self) -> int:
        """Tokens that came in ``decode_s``: all but the first."""
        return max(0, self.tokens - 1)

    @property
    def cell(self) -> tuple[str, str, int, str, float]:
        """What makes a run unique in a file."""
        return self.task, self.prompt, self.round, self.contestant, self.temperature


@dataclass(frozen=True, slots=True)
class PeakMemory:
    """The most memory that a contestant's process held.

    Attributes:
        contestant: its name.
        peak_bytes: resident bytes, the mapped model file included.
    """

    contestant: str
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class GrowthPoint:
    """A point of a growth curve.

    Attributes:
        curve: what is measured; names the curve.
        x: how much there is of what grows,
        x_name: and what that is.
        contestant: whose; ``None`` where no contestant is measured, but Maglio itself.
        series: which line of the curve; empty where there is one alone.
        value: what was measured, the median,
        low: the lower quartile,
        high: and the upper one.
        unit: of the values.
        expected: the order of growth that the series should have, such as ``O(1)``.
    """

    curve: str
    x: float
    x_name: str
    contestant: str | None
    series: str
    value: float
    low: float
    high: float
    unit: str
    expected: str


Line = Header | FieldRun | PeakMemory | GrowthPoint
