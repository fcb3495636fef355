"""An answer that is written by hand, in neutral deltas, for tests of how dialects tell it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import strategies as st

from maglio.server.task.chat_task import ChatTask
from maglio.server.task.delta import (
    CallArguments,
    CallBegan,
    ChatDelta,
    ContentText,
    Finished,
    Forward,
    ReasoningText,
)
from maglio.server.telemetry.usage import Usage

USAGE = Usage(prompt_tokens=20, cached_tokens=16, completion_tokens=9, reasoning_tokens=2)
ARGUMENTS = ('{"path": "a', '.py", "n', '": [1, {"ü": null}]}')
CALL = {"path": "a.py", "n": [1, {"ü": None}]}
WHOLE: tuple[ChatDelta, ...] = (
    Forward(0, ("model",), 0, 0),
    ReasoningText(0, "I should "),
    ReasoningText(0, "look."),
    ContentText(0, "Let me "),
    ContentText(0, "see: é😀"),
    CallBegan(0, 0, "call_1", "read"),
    *(CallArguments(0, 0, text) for text in ARGUMENTS),
    CallBegan(0, 1, "call_2", "list"),
    CallArguments(0, 1, "{}"),
    Finished(0, "tool_calls", USAGE),
)
"""Thinks, speaks, and calls two tools."""


@dataclass
class ScriptedTask:
    """Stands in for a chat task."""

    script: Sequence[ChatDelta]
    model: str = "tiny"
    seed: int = 7
    cached_tokens: int = 16
    prompt: Any = field(default_factory=lambda: SimpleNamespace(ids=list(range(20))))

    async def deltas(self) -> AsyncIterator[ChatDelta]:
        for delta in self.script:
            if isinstance(delta, Exception):
                raise delta
            yield delta

    async def __aenter__(self) -> ScriptedTask:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


def answer_with(
    patch: pytest.MonkeyPatch, script: Sequence[ChatDelta | Exception] = WHOLE
) -> list[Any]:
    """Make every chat be answered by the script. Returns the list of requests that came."""
    requests: list[Any] = []

    async def begin(body: Any, *_: object) -> ScriptedTask:
        requests.append(body)
        return ScriptedTask(script)

    patch.setattr(ChatTask, "begin", begin)
    return requests


@st.composite
def scripts(draw: st.DrawFn) -> list[ChatDelta]:
    """Any order of thinking, text and calls, ended in any way."""
    deltas: list[ChatDelta] = []
    calls = 0
    for kind in draw(st.lists(st.sampled_from(("think", "say", "call", "go on")), max_size=12)):
        text = draw(st.text(min_size=1, max_size=4))
        if kind == "think":
            deltas.append(ReasoningText(0, text))
        elif kind == "say":
            deltas.append(ContentText(0, text))
        elif kind == "call":
            deltas.append(CallBegan(0, calls, f"call_{calls}", "f"))
            deltas += [CallArguments(0, calls, piece) for piece in ('{"a"', ': "', 'b"}')]
            calls += 1
        else:
            deltas.append(Forward(0, ("model",), 0, 0))
    reason = draw(st.sampled_from(("stop", "length")))
    return [*deltas, Finished(0, "tool_calls" if calls else reason, USAGE)]
