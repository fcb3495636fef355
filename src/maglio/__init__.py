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
from maglio.version import __version__

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
    "__version__",
    "load",
]
