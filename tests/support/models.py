"""Writes GGUF files with random weights: small ones for tests, real shapes for speed and parity.

A file depends on its arguments alone. The weights come from the raw words of a counter-based
generator and from integer arithmetic, so they are the same with every numpy version, and each
tensor has its own stream, so the order of writing does not matter. This module knows GGUF's names;
it runs no model.

Spreads are those of a trained initialisation, so activations stay near one in every layer.
"""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter

from support.family_files import (
    DELTA_NETS,
    FAMILIES,
    TINY,
    TINY_K,
    Family,
    Shape,
    tensors,
    write_metadata,
)
from support.weight_formats import (
    FORMATS,
    K_FORMATS,
    Bytes,
    Floats,
    random_normals,
    random_rows,
    random_words,
    row_size,
)

__all__ = ["FAMILIES", "FORMATS", "K_FORMATS", "TINY", "TINY_K", "Family", "Shape", "write_model"]

WeightFormat = str | Callable[[str], str]
"""A format's name, or a function from tensor name to format; vectors, routers and the taps of
convolutions are F32."""

COMMON = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")
"""Formats that every family is tried in; the others are tried in two."""

MODELS = [
    (family, fmt)
    for family in FAMILIES
    for fmt in (FORMATS if family in ("llama", "qwen3moe") else COMMON)
]
"""Families and formats to try together."""

LOGIT_STD = 3.0
"""Standard deviation aimed at for one position's logits."""

QWEN3_06B = Shape(28, 1024, 16, 8, 128, 3072, 151936, 40960, 0, True)
"""Qwen3-0.6B as released."""

QWEN35_08B = Shape(24, 1024, 8, 2, 256, 3584, 248320, 262144, 0, True, 0, 0, 0, 16, 16, 128, 4)
"""Qwen3.5-0.8B as released, without vision and without the block that predicts a further token."""


def tiny_shape(family: Family, weight_format: WeightFormat) -> Shape:
    """Return the small shape of ``family`` whose rows suit ``weight_format``."""
    plain = isinstance(weight_format, str) and weight_format not in K_FORMATS
    return (TINY if plain else TINY_K)[family]


def write_model(
    path: Path | str,
    family: Family,
    shape: Shape,
    weight_format: WeightFormat,
    seed: int = 0,
) -> str:
    """Write a random model to ``path`` and return the BLAKE2 digest of its tensors' bytes.

    One tensor is in memory at a time. A row length that is no multiple of the format's block
    raises ``ValueError``.
    """
    choose = weight_format if callable(weight_format) else lambda _name: weight_format
    wanted = [
        (name, dims, "F32" if _stays_float(name, dims) else choose(name))
        for name, dims in tensors(family, shape)
    ]
    writer = GGUFWriter(path, family)
    write_metadata(writer, family, shape)
    for name, dims, fmt in wanted:
        row_bytes = row_size(name, fmt, dims[-1])
        size = row_bytes * math.prod(dims[:-1])
        kind = GGMLQuantizationType[fmt]
        stored = (*dims[:-1], row_bytes)  # the writer turns uint8 shapes into weights
        writer.add_tensor_info(name, stored, np.dtype(np.uint8), size, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    digest = hashlib.blake2b(digest_size=16)
    for name, dims, fmt in wanted:
        data = _tensor_bytes(family, shape, name, dims, fmt, seed)
        digest.update(data)
        writer.write_tensor_data(data)
    writer.close()
    return digest.hexdigest()


def _stays_float(name: str, dims: tuple[int, ...]) -> bool:
    parts = ("ffn_gate_inp", "conv1d", "conv.conv", ".bias")
    return len(dims) == 1 or any(part in name for part in parts)


# --- spreads -------------------------------------------------------------------------------------

_GAINS = {
    "attn_q": 1.2,
    "attn_k": 1.2,
    "attn_v": 1.0,
    "attn_qkv": 1.2,
    "attn_gate": 1.0,
    "ssm_alpha": 1.0,
    "ssm_beta": 1.5,
    "ssm_ba": 1.2,
    "ssm_conv1d": 1.5,
    "conv": 1.5,
    "in_proj": 1.0,
    "ffn_gate": 1.0,
    "ffn_up": 1.0,
    "ffn_gate_inp": 4.0,
    "ffn_gate_exps": 1.0,
    "ffn_up_exps": 1.0,
    "ffn_gate_shexp": 1.0,
    "ffn_up_shexp": 1.0,
    "output": LOGIT_STD,
    "token_embd": LOGIT_STD,
    "per_layer_token_embd": 2.5,
    "per_layer_model_proj": 1.0,
    "inp_gate": 1.0,
}
"""Standard deviation of a matrix's outputs for inputs of root mean square 1.

Queries and keys make scores with a deviation of 1.4, so attention picks out a few positions and
the logits depend on the context. Routers prefer some experts clearly, or the rounding of
activations to 8 bits would often change which ones a row takes.
"""

_BRANCH_GAINS = {
    "attn_output": 1.5,
    "ssm_out": 1.5,
    "out_proj": 0.7,
    "ffn_down": 0.6,
    "ffn_down_exps": 1.0,
    "ffn_down_shexp": 0.6,
    "proj": 1.0,
}
"""Gains of the matrices that write to the residual stream, before :func:`_branch_scale`."""


def _branch_scale(shape: Shape) -> float:
    """Scale of what one of the ``2 * n_layer`` branches adds to the residual stream.

    All of them together weigh about as much as the token's embedding. With heavier branches the
    rounding of activations to 8 bits, which engines do each in their way, would decide a
    noticeable part of the greedy choices.
    """
    return float(LOGIT_STD / np.sqrt(2 * shape.n_layer * shape.n_embd))


def _norm_mean(family: Family, shape: Shape, stem: str) -> float:
    if family == "gpt-oss":  # none is of an output, whatever its name
        return 1.0
    if stem in ("attn_q_norm", "attn_k_norm"):
        # Gemma 4 does not scale scores.
        return _GAINS["attn_q"] * (shape.head_dim**-0.25 if family == "gemma4" else 1.0)
    if family in DELTA_NETS:
        return -0.5 if stem == "ssm_a" else 1.0
    if stem.startswith("post_"):  # Gemma: the embedding is multiplied by sqrt(n_embd)
        factor = float(np.sqrt(shape.n_embd)) if family.startswith("gemma") else 1.0
        return 0.6 * _branch_scale(shape) * factor
    if stem == "rope_factors_long":
        return 4.0
    return 1.0


def _tensor_bytes(
    family: Family, shape: Shape, name: str, dims: tuple[int, ...], fmt: str, seed: int
) -> Bytes:
    stem, role = (
        name.removesuffix(".weight").removesuffix(".bias").split(".")[-1],
        name.split(".")[-1],
    )
    stream = np.random.Philox(key=np.array([seed, zlib.crc32(name.encode())], dtype=np.uint64))
    if len(dims) == 1 or role == "bias":
        size = math.prod(dims)
        noise = random_normals(stream, size)
        signs = np.where(random_words(stream, size, np.uint8) & 1, -1, 1)
        if role == "bias":
            values = 0.5 * noise * (_branch_scale(shape) if stem in _BRANCH_GAINS else 1.0)
        elif name.endswith("ffn_gate_inp.scale"):  # what it scales is divided by the root of n_embd
            values = np.sqrt(np.float32(dims[0])) * (1.0 + 0.2 * noise)
        elif stem == "attn_sinks":
            values = 1.0 + noise
        elif stem == "ffn_gate_inp_shexp":
            values = noise / np.sqrt(size)
        elif stem == "rope_freqs":  # a quarter of a head rotates
            values = np.where(np.arange(dims[0]) < dims[0] // 4, 1.0, 1e30)
        elif stem in ("output_norm", "token_embd_norm"):
            # Random signs: with a tied head a model of random weights would otherwise give
            # its last input token the highest logit everywhere.
            values = signs * (1.0 + 0.2 * noise)
        else:
            values = _norm_mean(family, shape, stem) * (1.0 + 0.2 * noise)
        return np.ascontiguousarray(values, dtype=np.float32).view(np.uint8)
    rows, columns = math.prod(dims[:-1]), dims[-1]
    gain = _GAINS.get(stem) or _BRANCH_GAINS[stem] * _branch_scale(shape)
    deviation = np.full(rows, gain / np.sqrt(columns), dtype=np.float32)
    if stem in ("token_embd", "output"):
        deviation *= _row_weights(stream, rows)
    out = np.empty((rows, row_size(name, fmt, columns)), dtype=np.uint8)
    step = max(1, _CHUNK // columns)
    for first in range(0, rows, step):
        part = deviation[first : first + step]
        out[first : first + step] = random_rows(stream, fmt, part, columns)
    return out


_CHUNK = 1 << 22  # weights made at a time


def _row_weights(stream: np.random.Philox, rows: int) -> Floats:
    """Relative lengths of vocabulary rows, from 0.3 to 2.

    As in trained models a few tokens are favoured, which widens the gap between the best and the
    second best; among equals it would be smaller than the rounding of 8-bit activations.
    """
    uniform = random_words(stream, rows, np.uint32).astype(np.float32) / np.float32(2**32)
    square = uniform.astype(np.float64) ** 2
    fourth = (square * square).astype(np.float32)  # NumPy's own powers differ between processors
    return np.float32(0.3) + np.float32(1.7) * fourth
