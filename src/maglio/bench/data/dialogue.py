"""A conversation as text. Says nothing about files or tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A conversation, with the kind of task it is.

    Attributes:
        category: the file's own name for the kind of task; empty where it has none.
        messages: the turns in order; those of the assistant are what a replay drafts.
        material: the text that the answer is made from, such as code to edit; empty if none.
    """

    category: str
    messages: tuple[Message, ...]
    material: str = ""

    @property
    def prompt(self) -> tuple[Message, ...]:
        """The turns up to the first that the assistant would take, for a model to answer."""
        turns = self.messages
        asked = next((i + 1 for i, turn in enumerate(turns) if turn.role == "user"), len(turns))
        return turns[:asked]


def exchange(category: str, question: str, answer: str, *, material: str = "") -> Dialogue:
    """A conversation of one question and one answer."""
    messages = (Message("user", question), Message("assistant", answer))
    return Dialogue(category, messages, material)
