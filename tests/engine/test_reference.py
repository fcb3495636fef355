"""The engine computes what the slow reference computes, and its weights are the file's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from gguf import GGUFReader
from gguf.quants import dequantize

from maglio import _core
from maglio.engine.native import NativeEngine
from maglio.engine.session import Session
from maglio.gguf import ModelFile
from support.goldens import log_softmax
from support.models import FAMILIES, FORMATS, MODELS, TINY
from support.reference import Reference, swiglu
from support.tiny import TinyModels, random_tokens

N_TOKENS = 100
FLOAT_FORMATS = ("F32", "F16", "BF16")

FLOAT_LIMIT = 2e-6
"""Mean KL with float weights: what the rounding of the cache to half precision leaves."""

QUANTIZED_LIMIT = 2.5e-3
"""Mean KL with quantized weights, whose products round activations to 8 bits."""


CODED_LIMIT = 1e-4
"""Mean KL with float weights and a cache in 8 bits: a value in the middle between two codes may be
rounded the other way in the reference, and later layers follow."""


EXPERTS = tuple(family for family in FAMILIES if TINY[family].n_expert)
ROWS_THAT_FLIP = 5
"""Of 100, in quantized files with experts. Where the last expert taken and the first one left out
are nearly level, rounding swaps them, and the row is another one."""


def mean_kl(engine: NativeEngine, reference: Reference, *, but: int = 0) -> float:
    """Return the mean of all rows but the worst ones."""
    tokens = random_tokens(engine.n_vocab, N_TOKENS, 1)
    ours = log_softmax(Session(engine).forward(tokens))
    theirs = log_softmax(reference.logits(tokens))
    rows = np.sort((np.exp(theirs) * (theirs - ours)).sum(axis=1))
    return float(rows[: len(rows) - but].mean())


@pytest.mark.parametrize(("family", "fmt"), MODELS)
def test_logits_are_those_of_the_reference(tiny: TinyModels, family: str, fmt: str) -> None:
    limit = FLOAT_LIMIT if fmt in FLOAT_FORMATS else QUANTIZED_LIMIT
    flips = ROWS_THAT_FLIP if family in EXPERTS and fmt not in FLOAT_FORMATS else 0
    reference = Reference(tiny.path(family, fmt))
    assert mean_kl(tiny.engine(family, fmt), reference, but=flips) < limit


@pytest.mark.parametrize("family", FAMILIES)
def test_a_cache_in_8_bits_is_that_of_the_reference(tiny: TinyModels, family: str) -> None:
    path, engine = tiny.path(family, "F32"), tiny.engine(family, "F32", kv_cache="q8_0")
    rounded = mean_kl(engine, Reference(path, kv_cache="q8_0"))
    assert rounded < CODED_LIMIT
    assert mean_kl(engine, Reference(path)) > 4 * rounded


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
    "one expert fewer": ("qwen3moe", lambda r: setattr(r.router, "n_used", r.router.n_used - 1)),
    "no shared expert": ("granitemoe", _without("blk.1.ffn_up_shexp.weight")),
    "a shared expert that counts": ("qwen2moe", _without("blk.1.ffn_gate_inp_shexp.weight")),
    "weights that sum to one": ("qwen2moe", lambda r: setattr(r.router, "normalizes", True)),
    "no sinks": ("gpt-oss", _without("blk.1.attn_sinks.weight")),
    "no bias of an output": ("gpt-oss", _without("blk.1.attn_output.bias")),
    "no bias of a router": ("gpt-oss", _without("blk.1.ffn_gate_inp.bias")),
    "no bias of gates": ("gpt-oss", _without("blk.1.ffn_gate_exps.bias")),
    "no bias of experts": ("gpt-oss", _without("blk.1.ffn_down_exps.bias")),
    "experts weighed among all": ("gpt-oss", lambda r: setattr(r.router, "gating", "softmax")),
    "another activation": ("gpt-oss", lambda r: setattr(r, "activation", swiglu)),
    "windows on odd layers": ("gpt-oss", _changed("local_every", lambda _: 1)),
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


@pytest.mark.parametrize(("family", "fmt"), MODELS)
def test_packed_weights_are_those_of_the_file(tiny: TinyModels, family: str, fmt: str) -> None:
    path = tiny.path(family, fmt)
    file = ModelFile(path)
    for tensor in GGUFReader(path).tensors:
        if len(tensor.shape) < 2:
            continue
        matrix = _core.read_matrix(file.header, tensor.name)
        ours = np.stack([matrix.row(row) for row in range(matrix.rows)])
        theirs = dequantize(tensor.data, tensor.tensor_type).reshape(ours.shape)
        np.testing.assert_array_equal(ours, theirs)


EXPANDED = {"IQ2_XXS": 148 / 66, "IQ2_XS": 148 / 74, "IQ2_S": 148 / 82, "IQ3_XXS": 148 / 98}
EXPANDED["IQ3_S"] = 148 / 110


@pytest.mark.parametrize("fmt", FORMATS)
def test_weights_take_the_bytes_they_have_in_the_file(tiny: TinyModels, fmt: str) -> None:
    path = tiny.path("llama", fmt)
    matrices = [t for t in GGUFReader(path).tensors if len(t.shape) == 2]
    # The last tile of a matrix is a whole one.
    rows = {t.name: -(-int(t.shape[1]) // 16) * 16 / int(t.shape[1]) for t in matrices}
    wanted = sum(t.n_bytes * rows[t.name] for t in matrices)
    assert tiny.engine("llama", fmt).weight_bytes == round(wanted * EXPANDED.get(fmt, 1.0))
