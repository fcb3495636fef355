"""What a model file is and whether it runs here, found without reading its weights.

Boundary: asks the engine, the tokenizers and the file what they know. Prints nothing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from maglio import _core, machine
from maglio.engine.native.engine import KV_CACHES
from maglio.engine.native.families import all_families
from maglio.engine.native.weights import plan_model
from maglio.errors import MaglioError, ModelFileError
from maglio.gguf import ModelFile
from maglio.native_model import read_chat_template, read_tokenizer
from maglio.text.pretokenizer import pretokenizer_names
from maglio.text.tokenizer import TOKENIZERS


@dataclass(frozen=True, slots=True)
class Supported:
    """What this build can run."""

    architectures: Mapping[str, str]
    """The models of each architecture, by ``general.architecture``."""
    formats: tuple[str, ...]
    """Types of tensors."""
    tokenizers: tuple[str, ...]
    """``tokenizer.ggml.model``."""
    pretokenizers: tuple[str, ...]
    """``tokenizer.ggml.pre``."""
    kv_caches: tuple[str, ...]
    instruction_sets: tuple[str, ...]
    """Of this machine, the best one first."""


@dataclass(frozen=True, slots=True)
class TensorCount:
    """The tensors of one type."""

    format: str
    tensors: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Memory:
    """What a model takes when it is loaded, in bytes."""

    weights: int
    cache_per_token: float
    """In the default type of cache."""
    cache_once: float
    """Of every sequence beside its tokens: the states of recurrent layers."""
    available: int | None
    """``None`` where the system does not say."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a model file says of itself, and what we say of it."""

    path: Path
    bytes: int
    architecture: str
    name: str
    parameters: int
    """Values of all tensors."""
    numbers: Mapping[str, int]
    """Those of ``block_count``, ``context_length`` and the like that the file has."""
    formats: tuple[TensorCount, ...]
    """By bytes, the most first."""
    tokenizer: str
    n_vocab: int
    chat_templates: tuple[str, ...]
    memory: Memory | None
    """``None`` if the engine cannot run the model."""
    problems: tuple[str, ...]
    """Why it does not run; empty if it does."""

    @property
    def runs(self) -> bool:
        """Whether the model can be loaded here."""
        return not self.problems


def supported() -> Supported:
    """List what this build can run."""
    return Supported(
        architectures={name: _first_line(page) for name, page in sorted(all_families().items())},
        formats=tuple(_core.tensor_types()),
        tokenizers=tuple(TOKENIZERS),
        pretokenizers=tuple(sorted(pretokenizer_names())),
        kv_caches=tuple(KV_CACHES),
        instruction_sets=tuple(_core.isa_names()),
    )


def inspect(path: str | Path) -> Inspection:
    """Look at a model file. Reads its header only.

    Raises:
        ModelFileError: it is not a sound GGUF file.
    """
    file = ModelFile(path)
    memory, engine_problem = _engine_memory(file)
    n_vocab, tokenizer_problem = _vocabulary(file)
    problems = [problem for problem in (engine_problem, tokenizer_problem) if problem]
    if memory is not None and memory.available is not None and memory.weights > memory.available:
        problems.append("the weights do not fit in the memory that is available")
    architecture = _text(file, "general.architecture")
    return Inspection(
        path=file.path,
        bytes=file.size,
        architecture=architecture,
        name=_text(file, "general.name"),
        parameters=sum(math.prod(tensor.shape) for tensor in file.tensors.values()),
        numbers=_numbers(file, architecture),
        formats=_formats(file),
        tokenizer=" ".join(
            filter(None, (_text(file, f"tokenizer.ggml.{key}") for key in ("model", "pre")))
        ),
        n_vocab=n_vocab,
        chat_templates=tuple(read_chat_template(file)),
        memory=memory,
        problems=tuple(problems),
    )


_NUMBERS = (
    "block_count", "context_length", "embedding_length", "attention.head_count",
    "attention.head_count_kv", "expert_count", "expert_used_count", "attention.sliding_window",
)  # fmt: skip
_POSITIONS = 1024


def _engine_memory(file: ModelFile) -> tuple[Memory | None, str]:
    try:
        plan = plan_model(file)
    except MaglioError as error:
        return None, _without_path(file, error)
    some, more = (plan.cache_bytes(n * _POSITIONS, KV_CACHES["f16"]) for n in (1, 2))
    per_token = (more - some) / _POSITIONS
    once = some - per_token * _POSITIONS
    return Memory(plan.weight_bytes, per_token, once, machine.available_memory()), ""


def _vocabulary(file: ModelFile) -> tuple[int, str]:
    try:
        return read_tokenizer(file).n_vocab, ""
    except ModelFileError as error:
        tokens = file.metadata.get("tokenizer.ggml.tokens")
        return len(tokens) if isinstance(tokens, list) else 0, _without_path(file, error)


def _without_path(file: ModelFile, error: MaglioError) -> str:
    return str(error).removeprefix(str(file.error("")))


def _formats(file: ModelFile) -> tuple[TensorCount, ...]:
    counts: dict[str, TensorCount] = {}
    for tensor in file.tensors.values():
        before = counts.get(tensor.type, TensorCount(tensor.type, 0, 0))
        counts[tensor.type] = TensorCount(
            tensor.type, before.tensors + 1, before.bytes + tensor.bytes
        )
    return tuple(sorted(counts.values(), key=lambda count: count.bytes, reverse=True))


def _numbers(file: ModelFile, architecture: str) -> dict[str, int]:
    found = {name: file.metadata.get(f"{architecture}.{name}") for name in _NUMBERS}
    return {
        name: value
        for name, value in found.items()
        if isinstance(value, int) and not isinstance(value, bool)
    }


def _text(file: ModelFile, key: str) -> str:
    value = file.metadata.get(key, "")
    return value if isinstance(value, str) else ""


def _first_line(page: Callable[..., object]) -> str:
    """What the module of a page says of itself; the page, if it has no module."""
    module = sys.modules.get(page.__module__)
    text = (module and module.__doc__) or page.__doc__ or ""
    return text.split("\n", 1)[0].rstrip(".")
