"""Questions without recorded answers: Spec-Bench and MT-bench. Prompts for a model to answer."""

from __future__ import annotations

from maglio.bench.data.dialogue import Dialogue, Message
from maglio.bench.data.fields import Record


def read_questions(record: Record) -> Dialogue:
    """``turns`` of the user, and a ``category``."""
    turns = tuple(Message("user", text) for text in record.texts("turns"))
    return Dialogue(record.text("category"), turns)
