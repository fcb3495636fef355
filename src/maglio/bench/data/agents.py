"""Recorded agents: SWE-agent trajectories and ReAct traces. Every step is the assistant's turn."""

from __future__ import annotations

from maglio.bench.data.dialogue import Dialogue, Message, Role
from maglio.bench.data.fields import Record

_ROLES: dict[str, Role] = {
    "system": "system",
    "user": "user",
    "tool": "user",
    "assistant": "assistant",
}


def read_trajectory(record: Record) -> Dialogue:
    """SWE-agent: the ``history`` of a run. Empty turns are left out."""
    turns = [_turn(entry) for entry in record.records("history")]
    return Dialogue("agent", tuple(turn for turn in turns if turn.text))


def _turn(entry: Record) -> Message:
    role = _ROLES.get(entry.text("role"))
    if role is None:
        raise entry.error(f"there is no role {entry.text('role')!r}")
    return Message(role, entry.text("content"))


def read_react(record: Record) -> Dialogue:
    """ReAct on HotpotQA: one question with its thoughts, actions and observations."""
    question = next(iter(record.value))
    turns = [Message("user", question)]
    for step in record.records(question):
        turns.append(
            Message("assistant", f"Thought: {step.text('thought')}\nAction: {step.text('action')}")
        )
        turns.append(Message("user", f"Observation: {step.text('observation')}"))
    return Dialogue("react", tuple(turns))
