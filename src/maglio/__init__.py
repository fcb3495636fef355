"""Exact speculative decoding without a draft model, on ordinary CPUs."""

from maglio.decode import GenerationStats, SamplingParams
from maglio.errors import (
    ContextFullError,
    InvalidArgumentError,
    InvalidLogitsError,
    MaglioError,
    ModelFileError,
    OutOfMemoryError,
)
from maglio.generation import Generation, Stream, TextToken
from maglio.model import Model, Speculation, load

__version__ = "0.1.0"

__all__ = [
    "ContextFullError",
    "Generation",
    "GenerationStats",
    "InvalidArgumentError",
    "InvalidLogitsError",
    "MaglioError",
    "Model",
    "ModelFileError",
    "OutOfMemoryError",
    "SamplingParams",
    "Speculation",
    "Stream",
    "TextToken",
    "load",
]
