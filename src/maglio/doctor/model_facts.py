"""What a model's file tells of what it will need.

Boundary: headers of files only; nothing for what is not a GGUF file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from maglio.errors import ModelFileError
from maglio.inspection import inspect


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """The file of a model.

    Attributes:
        path: where it is.
        bytes: of all its parts.
        architecture: such as ``llama``.
        context_length: tokens that it was trained for; 0 if it does not say.
        weight_bytes: what the native engine's weights take; ``None`` if it cannot run it,
        cache_bytes: and what a cache of the whole context takes, in half precision.
    """

    path: str
    bytes: int
    architecture: str
    context_length: int
    weight_bytes: int | None
    cache_bytes: int | None


def model_facts(path: Path) -> ModelFacts | None:
    """Read the header of a model; ``None`` if it is not a sound GGUF file."""
    try:
        seen = inspect(path)
    except ModelFileError:
        return None
    context = seen.numbers.get("context_length", 0)
    cache = None
    if seen.memory is not None:
        cache = round(seen.memory.cache_once + seen.memory.cache_per_token * context)
    return ModelFacts(
        path=str(path),
        bytes=seen.bytes,
        architecture=seen.architecture,
        context_length=context,
        weight_bytes=None if seen.memory is None else seen.memory.weights,
        cache_bytes=cache,
    )
