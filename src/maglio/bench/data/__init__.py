"""Readers of public benchmark files: a path in, conversations out. No tokens, no model."""

from maglio.bench.data.dialogue import Dialogue, Message
from maglio.bench.data.reader import read_dialogues

__all__ = ["Dialogue", "Message", "read_dialogues"]
