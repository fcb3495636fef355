"""Models of the transformers library as an engine; needs the extra ``hf``."""

from maglio.engine.transformers.engine import TransformersEngine

__all__ = ["TransformersEngine"]
