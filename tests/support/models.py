"""Writes GGUF files with random weights: small ones for tests, real shapes for speed and parity.

A file depends on its arguments alone. The weights come from the raw words of a counter-based
generator and from integer arithmetic, so they are the same with every numpy version, and each
tensor has its own stream, so the order of writing does not matter. This module knows GGUF's names
and block layouts; it runs no model.

Block formats are filled with random codes rather than quantized from floats: it is much faster,
works for formats the ``gguf`` package cannot quantize, and reaches code and scale values (negative
scales, both ends of the range) that a quantizer seldom writes. Spreads are those of a trained
initialisation, so activations stay near one in every layer.
"""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType, GGUFWriter

from support.family_files import (
    FAMILIES,
    TINY,
    TINY_K,
    Family,
    Shape,
    tensors,
    write_metadata,
)

__all__ = ["FAMILIES", "TINY", "TINY_K", "Family", "Shape", "write_model"]

WeightFormat = str | Callable[[str], str]
"""A format's name, or a function from tensor name to format; vectors and routers are F32."""

FORMATS = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")
K_FORMATS = ("Q4_K", "Q5_K", "Q6_K")
"""Formats with blocks of 256 weights: they need the row lengths of :data:`TINY_K`."""

LOGIT_STD = 3.0
"""Standard deviation aimed at for one position's logits."""

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


QWEN3_06B = Shape(28, 1024, 16, 8, 128, 3072, 151936, 40960, 0, True)
"""Qwen3-0.6B as released."""


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
        (name, dims, "F32" if len(dims) == 1 or "ffn_gate_inp" in name else choose(name))
        for name, dims in tensors(family, shape)
    ]
    writer = GGUFWriter(path, family)
    write_metadata(writer, family, shape)
    for name, dims, fmt in wanted:
        row_bytes = _row_bytes(name, fmt, dims[-1])
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


# --- spreads -------------------------------------------------------------------------------------

_GAINS = {
    "attn_q": 1.2,
    "attn_k": 1.2,
    "attn_v": 1.0,
    "attn_qkv": 1.2,
    "ffn_gate": 1.0,
    "ffn_up": 1.0,
    "ffn_gate_inp": 4.0,
    "ffn_gate_exps": 1.0,
    "ffn_up_exps": 1.0,
    "output": LOGIT_STD,
    "token_embd": LOGIT_STD,
}
"""Standard deviation of a matrix's outputs for inputs of root mean square 1.

Queries and keys make scores with a deviation of 1.4, so attention picks out a few positions and
the logits depend on the context. Routers prefer some experts clearly, or the rounding of
activations to 8 bits would often change which ones a row takes.
"""

_BRANCH_GAINS = {"attn_output": 1.5, "ffn_down": 0.6, "ffn_down_exps": 1.0}
"""Gains of the matrices that write to the residual stream, before :func:`_branch_scale`."""


def _branch_scale(shape: Shape) -> float:
    """Scale of what one of the ``2 * n_layer`` branches adds to the residual stream.

    All of them together weigh about as much as the token's embedding. With heavier branches the
    rounding of activations to 8 bits, which engines do each in their way, would decide a
    noticeable part of the greedy choices.
    """
    return float(LOGIT_STD / np.sqrt(2 * shape.n_layer * shape.n_embd))


def _norm_mean(family: Family, shape: Shape, stem: str) -> float:
    if stem in ("attn_q_norm", "attn_k_norm"):
        return _GAINS["attn_q"]
    if stem.startswith("post_"):  # Gemma: the embedding is multiplied by sqrt(n_embd)
        factor = float(np.sqrt(shape.n_embd)) if family.startswith("gemma") else 1.0
        return 0.6 * _branch_scale(shape) * factor
    if stem == "rope_factors_long":
        return 4.0
    return 1.0


def _tensor_bytes(
    family: Family, shape: Shape, name: str, dims: tuple[int, ...], fmt: str, seed: int
) -> Bytes:
    stem, role = name.split(".")[-2:]
    stream = np.random.Philox(key=np.array([seed, zlib.crc32(name.encode())], dtype=np.uint64))
    if len(dims) == 1:
        noise = _normals(stream, dims[0])
        signs = np.where(_words(stream, dims[0], np.uint8) & 1, -1, 1)
        if role == "bias":
            values = 0.5 * noise
        elif stem == "output_norm":
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
    out = np.empty((rows, _row_bytes(name, fmt, columns)), dtype=np.uint8)
    step = max(1, _CHUNK // columns)
    for first in range(0, rows, step):
        part = deviation[first : first + step]
        out[first : first + step] = _matrix_rows(stream, fmt, part, columns)
    return out


_CHUNK = 1 << 22  # weights made at a time


def _row_weights(stream: np.random.Philox, rows: int) -> Floats:
    """Relative lengths of vocabulary rows, from 0.3 to 2.

    As in trained models a few tokens are favoured, which widens the gap between the best and the
    second best; among equals it would be smaller than the rounding of 8-bit activations.
    """
    uniform = _words(stream, rows, np.uint32).astype(np.float32) / np.float32(2**32)
    return np.float32(0.3) + np.float32(1.7) * uniform**4


def _words(stream: np.random.Philox, count: int, dtype: type[np.generic]) -> npt.NDArray:
    size = np.dtype(dtype).itemsize
    return stream.random_raw(-(-count * size // 8)).astype("<u8").view(dtype)[:count]


def _normals(stream: np.random.Philox, count: int) -> Floats:
    """Nearly normal values of deviation 1: sums of four 16-bit words (Irwin-Hall)."""
    words = _words(stream, count * 4, np.uint16).reshape(count, 4)
    total = words.sum(axis=1, dtype=np.int32) - np.int32(2 * 65535)
    return total.astype(np.float32) * np.float32(np.sqrt(3.0) / 65536)


# --- block formats -------------------------------------------------------------------------------

_FLOATS = {"F32": 4, "F16": 2, "BF16": 2}
_BLOCKS = {
    "Q4_0": (32, 18),
    "Q4_1": (32, 20),
    "Q5_0": (32, 22),
    "Q5_1": (32, 24),
    "Q8_0": (32, 34),
    "Q4_K": (256, 144),
    "Q5_K": (256, 176),
    "Q6_K": (256, 210),
}
"""Weights and bytes per block."""

_CODES = {"Q4_0": 4, "Q4_1": 4, "Q5_0": 5, "Q5_1": 5, "Q8_0": 8, "Q4_K": 4, "Q5_K": 5, "Q6_K": 6}
"""Bits per weight code; codes are uniform, so their deviation is 2**bits / sqrt(12)."""


def _row_bytes(name: str, fmt: str, columns: int) -> int:
    if fmt in _FLOATS:
        return columns * _FLOATS[fmt]
    per_block, size = _BLOCKS[fmt]
    if columns % per_block:
        raise ValueError(f"{name}: rows of {columns} weights do not divide into {fmt} blocks")
    return columns // per_block * size


def _matrix_rows(stream: np.random.Philox, fmt: str, deviation: Floats, columns: int) -> Bytes:
    """Return the bytes of ``len(deviation)`` rows, each with its standard deviation."""
    rows = len(deviation)
    if fmt in _FLOATS:
        values = _normals(stream, rows * columns).reshape(rows, columns) * deviation[:, None]
        return _float_bytes(values, fmt)
    per_block, size = _BLOCKS[fmt]
    n_blocks = rows * (columns // per_block)
    blocks = _words(stream, n_blocks * size, np.uint8).reshape(n_blocks, size).copy()
    unit = np.repeat(deviation, columns // per_block) / np.float32(2 ** _CODES[fmt] / 12**0.5)
    jitter = _words(stream, n_blocks, np.uint16).astype(np.float32) / np.float32(65536)
    unit = unit * (np.float32(0.75) + np.float32(0.5) * jitter)
    _FILL[fmt](blocks, unit)
    return blocks.reshape(rows, -1)


def _float_bytes(values: Floats, fmt: str) -> Bytes:
    if fmt == "F16":
        return values.astype(np.float16).view(np.uint8)
    if fmt == "BF16":
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    return values.view(np.uint8)


def _put(blocks: Bytes, offset: int, values: Floats) -> None:
    blocks[:, offset : offset + 2] = values.astype(np.float16)[:, None].view(np.uint8)


def _signed(blocks: Bytes, unit: Floats) -> None:
    """Q4_0 and Q5_0: the scale carries the sign of a block's largest weight."""
    _put(blocks, 0, np.where(blocks[:, 2] & 1, -unit, unit))


def _offset(bits: int) -> Callable[[Bytes, Floats], None]:
    """Q4_1 and Q5_1: the minimum puts the middle code near zero."""

    def fill(blocks: Bytes, unit: Floats) -> None:
        _put(blocks, 0, unit)
        _put(blocks, 2, -unit * np.float32(2 ** (bits - 1) - 0.5))

    return fill


def _q8(blocks: Bytes, unit: Floats) -> None:
    blocks[:, 2:][blocks[:, 2:] == 128] = 129  # quantizers keep to -127 .. 127
    _put(blocks, 0, unit)


def _packed(bits: int) -> Callable[[Bytes, Floats], None]:
    """Q4_K and Q5_K: eight 6-bit scales and minima per block, each minimum near its scale."""

    def fill(blocks: Bytes, unit: Floats) -> None:
        scale = 20 + (blocks[:, 4:12] % 44)  # 20 .. 63
        minimum = np.minimum(scale + blocks[:, 8:16] % 3 - 1, 63)
        low, high = scale[:, :4], scale[:, 4:]
        min_low, min_high = minimum[:, :4], minimum[:, 4:]
        blocks[:, 4:8] = low | (high >> 4 << 6)
        blocks[:, 8:12] = min_low | (min_high >> 4 << 6)
        blocks[:, 12:16] = (high & 15) | (min_high & 15) << 4
        step = unit / np.float32(43.5)  # root mean square of the scales
        _put(blocks, 0, step)
        _put(blocks, 2, step * np.float32(2 ** (bits - 1) - 0.5))

    return fill


def _q6(blocks: Bytes, unit: Floats) -> None:
    scales = blocks[:, 192:208].view(np.int8)
    scales[:] = np.where(scales < 0, scales // 2 - 64, scales // 2 + 64)  # 64 .. 127, either sign
    _put(blocks, 208, unit / np.float32(97.2))


_FILL: dict[str, Callable[[Bytes, Floats], None]] = {
    "Q4_0": _signed,
    "Q4_1": _offset(4),
    "Q5_0": _signed,
    "Q5_1": _offset(5),
    "Q8_0": _q8,
    "Q4_K": _packed(4),
    "Q5_K": _packed(5),
    "Q6_K": _q6,
}
