"""The engine computes what the slow reference computes, and its weights are the file's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader
from gguf.quants import Q4_K, dequantize

from maglio import _core
from maglio.engine.native import NativeEngine
from maglio.engine.session import Session
from maglio.gguf import ModelFile
from support.goldens import log_softmax
from support.models import FAMILIES, FORMATS, K_FORMATS
from support.reference import Reference
from support.tiny import TinyModels, random_tokens

N_TOKENS = 100
FLOAT_FORMATS = ("F32", "F16", "BF16")

FLOAT_LIMIT = 2e-6
"""Mean KL with float weights: what the rounding of the cache to half precision leaves."""

QUANTIZED_LIMIT = 2.5e-3
"""Mean KL with quantized weights, whose products round activations to 8 bits."""


def mean_kl(engine: NativeEngine, reference: Reference) -> float:
    tokens = random_tokens(engine.n_vocab, N_TOKENS, 1)
    ours = log_softmax(Session(engine).forward(tokens))
    theirs = log_softmax(reference.logits(tokens))
    return float((np.exp(theirs) * (theirs - ours)).sum(axis=1).mean())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("fmt", FORMATS)
def test_logits_are_those_of_the_reference(tiny: TinyModels, family: str, fmt: str) -> None:
    limit = FLOAT_LIMIT if fmt in FLOAT_FORMATS else QUANTIZED_LIMIT
    reference = Reference(tiny.path(family, fmt))
    assert mean_kl(tiny.engine(family, fmt), reference) < limit


def _without(tensor: str) -> Callable[[Reference], object]:
    return lambda reference: reference.tensors.pop(tensor)


def _changed(name: str, change: Callable[[float], float]) -> Callable[[Reference], object]:
    return lambda reference: setattr(reference, name, change(getattr(reference, name)))


MISTAKES: dict[str, tuple[str, Callable[[Reference], object]]] = {
    "window too long": ("gemma3", _changed("window", lambda n: n + 1)),
    "window too short": ("gemma3", _changed("window", lambda n: n - 1)),
    "no query bias": ("qwen2", _without("blk.1.attn_q.bias")),
    "no key bias": ("qwen2", _without("blk.1.attn_k.bias")),
    "no value bias": ("qwen2", _without("blk.1.attn_v.bias")),
    "no norm per head": ("qwen3", _without("blk.1.attn_q_norm.weight")),
    "one expert fewer": ("qwen3moe", _changed("n_used", lambda n: n - 1)),
    "scores capped later": ("gemma2", _changed("score_cap", lambda cap: cap * 1.1)),
    "logits capped later": ("gemma2", _changed("logit_cap", lambda cap: cap * 1.01)),
    "windows elsewhere": ("gemma2", _changed("local_every", lambda n: n + 1)),
    "no norm of an output": ("olmo2", _without("blk.1.post_ffw_norm.weight")),
    "every layer rotates": ("smollm3", lambda r: setattr(r, "_rotates", lambda *_: True)),
    "factors for short sessions": ("phi3", _changed("n_ctx", lambda n: 64)),
    "no magnitude": ("phi3", _changed("magnitude", lambda _: 1.0)),
    "wrong embeddings": ("granite", _changed("embedding_scale", lambda s: s * 1.02)),
    "wrong residual": ("granite", _changed("residual_scale", lambda s: s * 1.02)),
    "wrong scores": ("granite", _changed("score_scale", lambda s: s * 1.1)),
    "wrong logits": ("granite", _changed("logit_scale", lambda s: s * 1.01)),
    "more is rotated": ("glm4", _changed("n_rotated", lambda n: n + 2)),
    "no norm of a sub-layer": ("exaone4", _without("blk.1.post_attention_norm.weight")),
    "no growth": ("mistral3", _changed("temperature", lambda _: 0.0)),
    "no YaRN": ("mistral3", _changed("yarn", lambda _: False)),
    "wrong epsilon": ("llama", _changed("eps", lambda eps: eps * 10)),
} | {
    f"wrong rotation base, {family}": (family, _changed("rope_base", lambda base: base * 1.1))
    for family in FAMILIES
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_limit_catches_a_small_mistake(tiny: TinyModels, mistake: str) -> None:
    family, make = MISTAKES[mistake]
    reference = Reference(tiny.path(family, "F32"))
    make(reference)
    assert mean_kl(tiny.engine(family, "F32"), reference) > 10 * FLOAT_LIMIT


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("fmt", FORMATS)
def test_packed_weights_are_those_of_the_file(tiny: TinyModels, family: str, fmt: str) -> None:
    path = tiny.path(family, fmt)
    file = ModelFile(path)
    rounded = False
    for tensor in GGUFReader(path).tensors:
        if len(tensor.shape) < 2:
            continue
        matrix = _core.read_matrix(file.header, tensor.name)
        ours = np.stack([matrix.row(row) for row in range(matrix.rows)])
        theirs = dequantize(tensor.data, tensor.tensor_type).reshape(ours.shape)
        if tensor.tensor_type.name not in K_FORMATS:  # the file's own scales are halves
            np.testing.assert_array_equal(ours, theirs)
            continue
        bound = rounding_bound(tensor.data, theirs, tensor.tensor_type)
        assert (np.abs(ours - theirs) <= bound).all()
        rounded |= bool((ours != theirs).any())
    assert rounded == (fmt in K_FORMATS)  # the bound has something to bound


def rounding_bound(data: np.ndarray, values: np.ndarray, kind: GGMLQuantizationType) -> np.ndarray:
    """How far a value may be off when its scale and minimum are rounded to half precision.

    A value is ``scale * code - minimum``, and each of the two terms is off by at most 2^-11 of
    itself (half a unit in the last place; of the smallest half where it is subnormal), so the
    value by at most ``2^-11 * (|value + minimum| + |minimum|)``. The float32 arithmetic on both
    sides adds less than 2^-20 of that.
    """
    minimum = np.zeros_like(values)
    if kind != GGMLQuantizationType.Q6_K:
        block_bytes = 144 if kind == GGMLQuantizationType.Q4_K else 176
        blocks = data.reshape(-1, block_bytes)
        half = blocks[:, 2:4].copy().view(np.float16).astype(np.float32)
        minima = half * Q4_K.get_scale_min(blocks[:, 4:16])[1]
        minimum = np.repeat(minima, 32, axis=1).reshape(values.shape)
    size = np.abs(values + minimum) + np.abs(minimum)
    return size * np.float32(2**-11 * (1 + 2**-8)) + np.float32(2**-25 * 64)
