"""How far growth curves are followed.

Boundary: numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

TOKENS_PER_HOUR = 360_000
"""Of a stream of 100 tokens per second."""

_ROOM = 256
"""For a verify step, or for another turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Where points are measured, ascending, and how often.

    Attributes:
        contexts: tokens in the cache.
        references: tokens of a document.
        streams: prompts at a time,
        stream_tokens: and tokens generated for each.
        conversations: tokens of a conversation.
        hours: of one stream.
        repetitions: timings of what takes milliseconds,
        rounds: of what takes seconds,
        steps: and of what takes microseconds.
    """

    contexts: tuple[int, ...]
    references: tuple[int, ...]
    streams: tuple[int, ...]
    stream_tokens: int
    conversations: tuple[int, ...]
    hours: tuple[int, ...]
    repetitions: int
    rounds: int
    steps: int

    @property
    def n_ctx(self) -> int:
        """The context that all of it fits into."""
        return max(self.contexts[-1], self.conversations[-1]) + _ROOM


FULL = Scale(
    contexts=(512, 1024, 2048, 4096, 8192, 16384),
    references=(1_000, 10_000, 100_000, 1_000_000, 10_000_000),
    streams=(1, 2, 4, 8, 16, 32),
    stream_tokens=64,
    conversations=(256, 512, 1024, 2048, 4096),
    hours=(1, 3, 10, 30, 100),
    repetitions=21,
    rounds=3,
    steps=4000,
)
"""Some minutes with a model of a hundred million parameters, and an hour with one of billions."""

QUICK = Scale(
    contexts=(512, 1024, 2048),
    references=(1_000, 10_000, 100_000, 1_000_000),
    streams=(1, 4, 16),
    stream_tokens=32,
    conversations=(256, 512, 1024),
    hours=(1, 3, 10),
    repetitions=7,
    rounds=1,
    steps=1000,
)
"""About a minute with a model of a hundred million parameters."""
