"""Conversations of other dialects, brought into the order that chat templates take.

Boundary: texts in, messages of :class:`~maglio.server.schema.chat.ChatRequest` out.

Templates want one system message, at the beginning, and then turns that alternate; many refuse
anything else. Some dialects give a turn in pieces and instructions in the middle. So pieces of one
turn are joined, and instructions after the beginning become part of what the user says.
"""

from __future__ import annotations

from typing import Any


class Turns:
    """A conversation, told piece by piece."""

    def __init__(self) -> None:
        self._system: list[str] = []
        self._turns: list[dict[str, Any]] = []

    def system(self, text: str) -> None:
        """Instructions."""
        if self._turns:
            self.user(text)
        elif text:
            self._system.append(text)

    def user(self, text: str) -> None:
        """The user says something."""
        if text:
            _join(self._turn("user"), "content", text)

    def assistant(self, text: str = "", *, reasoning: str = "") -> None:
        """The assistant thought, or said, something."""
        if text or reasoning:
            turn = self._turn("assistant")
            _join(turn, "content", text)
            _join(turn, "reasoning_content", reasoning)

    def call(self, name: str, arguments: str, *, id: str) -> None:  # noqa: A002  # its wire name
        """The assistant called a tool; ``arguments`` is a JSON object as text."""
        function = {"name": name, "arguments": arguments}
        calls = self._turn("assistant").setdefault("tool_calls", [])
        calls.append({"id": id, "type": "function", "function": function})

    def result(self, text: str, *, id: str) -> None:  # noqa: A002
        """What a call gave."""
        self._turns.append({"role": "tool", "tool_call_id": id, "content": text})

    @property
    def ends_with_assistant(self) -> bool:
        """Whether the assistant has begun the turn that is to be generated."""
        return bool(self._turns) and self._turns[-1]["role"] == "assistant"

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages; one of the user that is empty if there is nothing else."""
        turns = self._turns or [{"role": "user", "content": ""}]
        if not self._system:
            return turns
        return [{"role": "system", "content": "\n\n".join(self._system)}, *turns]

    def _turn(self, role: str) -> dict[str, Any]:
        if not self._turns or self._turns[-1]["role"] != role:
            self._turns.append({"role": role, "content": ""})
        return self._turns[-1]


def _join(turn: dict[str, Any], name: str, text: str) -> None:
    if text:
        before = turn.get(name)
        turn[name] = f"{before}\n{text}" if before else text
