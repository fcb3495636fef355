"""Engines: token ids in, logits out."""

from maglio.engine.base import Engine, Exactness, Logits, Session

__all__ = ["Engine", "Exactness", "Logits", "Session"]
