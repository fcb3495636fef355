"""llama.cpp as an engine, through llama-cpp-python; needs the extra ``llama``."""

from maglio.engine.llama_cpp.engine import LlamaCppEngine

__all__ = ["LlamaCppEngine"]
