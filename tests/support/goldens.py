"""Goldens: what llama.cpp computes for a model file, and how closely an engine agrees with it.

``scripts/make_engine_goldens.py`` writes them; this module names the models, rebuilds the random
ones from their seeds, and compares logits. It runs neither llama.cpp nor our engine.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from support.models import K_FORMATS, QWEN3_06B, Family, Shape, write_model

DIRECTORY = Path(__file__).parent.parent / "goldens" / "engine"
TOP = 32
"""Candidates kept per position; the others count as one."""

Rows = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class RandomModel:
    """The arguments of :func:`support.models.write_model` for a golden's model."""

    family: Family
    shape: Shape
    weight_format: str
    seed: int


_QWEN3 = replace(QWEN3_06B, n_layer=3, n_vocab=4100, n_ctx=1024)
_QWEN2_05B = Shape(2, 896, 14, 2, 64, 4864, 4100, 1024, 0, True)
_QWEN2_15B = Shape(2, 1536, 12, 2, 128, 8960, 4100, 1024, 0, True)  # rows of 256-weight blocks

RANDOM_MODELS: dict[str, RandomModel] = {
    f"{family}-{fmt.lower()}": RandomModel(family, shape, fmt, 20 + i)
    for i, fmt in enumerate(("F16", "Q4_0", "Q4_1", "Q4_K", "Q5_K", "Q6_K", "Q8_0"))
    for family, shape in (
        ("qwen2", _QWEN2_15B if fmt in K_FORMATS else _QWEN2_05B),
        ("qwen3", _QWEN3),
    )
}
"""Random weights in the layers of Qwen2 (0.5B, 1.5B) and Qwen3 (0.6B), few of them."""

REAL_MODELS = ("smollm2-135m", "gemma3-270m")


@dataclass(frozen=True, slots=True)
class Golden:
    """llama.cpp's predictions for ``tokens``, from position ``first`` on."""

    digest: str
    """BLAKE2 digest of the random model's tensors, or of the real model's file.

    llama.cpp saw random models in which some rows of the vocabulary differed from these in the last
    bit: they were written with a power of NumPy that is rounded differently where there is AVX-512.
    """
    tokens: npt.NDArray[np.uint32]
    first: int
    """Position of the first row below."""
    ids: npt.NDArray[np.unsignedinteger[Any]]
    """(positions, TOP) most probable next tokens, best first."""
    logprobs: npt.NDArray[np.float16]
    """(positions, TOP) their natural log-probabilities."""
    next_logprobs: npt.NDArray[np.float32]
    """(positions - 1,) log-probability of the token that follows in ``tokens``."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How an engine's rows compare with a golden."""

    top1: float
    """Share of positions with the same most probable token."""
    kl: float
    """Mean Kullback-Leibler divergence in nats, from the golden's distribution."""
    perplexity_ratio: float
    """The engine's perplexity on the golden's tokens over llama.cpp's."""


def load_golden(name: str) -> Golden:
    """Read the golden ``name``, one of ``RANDOM_MODELS`` or ``REAL_MODELS``."""
    with np.load(DIRECTORY / f"{name}.npz") as data:
        return Golden(
            digest=str(data["digest"]),
            tokens=data["tokens"],
            first=int(data["first"]),
            ids=data["ids"],
            logprobs=data["logprobs"],
            next_logprobs=data["next_logprobs"],
        )


def write_golden_model(name: str, path: Path) -> str:
    """Write the random model of golden ``name`` to ``path`` and return its digest."""
    model = RANDOM_MODELS[name]
    return write_model(path, model.family, model.shape, model.weight_format, model.seed)


def file_digest(path: Path) -> str:
    """Return the digest of a real model's file."""
    with path.open("rb") as file:
        digest = hashlib.blake2b(digest_size=16)
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def compare(golden: Golden, rows: Rows) -> Agreement:
    """Compare an engine's logits ``(len(golden.tokens), vocab)`` with the golden.

    Rows before ``golden.first`` are not looked at; an array that leaves them out is fine too.
    """
    n = len(golden.ids)
    if len(rows) not in (n, len(golden.tokens)):
        raise ValueError(f"{len(rows)} rows for a golden of {n} of {len(golden.tokens)} positions")
    logprobs = log_softmax(rows[-n:])
    ids = golden.ids.astype(np.int64)
    same = logprobs.argmax(axis=1) == ids[:, 0]
    following = golden.tokens[golden.first + 1 :].astype(np.int64)
    loss = golden.next_logprobs - logprobs[np.arange(n - 1), following]
    return Agreement(
        top1=float(same.mean()),
        kl=float(_divergence(golden, np.take_along_axis(logprobs, ids, axis=1)).mean()),
        perplexity_ratio=math.exp(float(loss.mean())),
    )


def log_softmax(rows: Rows) -> npt.NDArray[np.float64]:
    """Natural log-probabilities of logits ``(n, vocab)``, computed in float64."""
    out = rows - rows.max(axis=1, keepdims=True).astype(np.float64)
    out -= np.log(np.exp(out).sum(axis=1, keepdims=True))
    return out


def _divergence(golden: Golden, ours: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """KL over the golden's top tokens and one bucket for all others, per position."""
    theirs = golden.logprobs.astype(np.float64)
    p, q = np.exp(theirs), np.exp(ours)
    p_rest = np.maximum(1.0 - p.sum(axis=1), 1e-6)
    q_rest = np.maximum(1.0 - q.sum(axis=1), 1e-6)
    return (p * (theirs - ours)).sum(axis=1) + p_rest * np.log(p_rest / q_rest)
