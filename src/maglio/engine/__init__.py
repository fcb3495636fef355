"""Engines: token ids in, logits out."""

from maglio.engine.base import Cache, Engine, Exactness, Logits, Segment
from maglio.engine.session import Session

__all__ = ["Cache", "Engine", "Exactness", "Logits", "Segment", "Session"]
