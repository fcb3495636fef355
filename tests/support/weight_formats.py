"""Random weights in the formats of GGUF files.

Block formats are filled with random codes rather than quantized from floats: it is much faster,
works for formats the ``gguf`` package cannot quantize, and reaches code and scale values (negative
scales, both ends of the range) that a quantizer seldom writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


def random_words(stream: np.random.Philox, count: int, dtype: type[np.generic]) -> npt.NDArray:
    """Return ``count`` random numbers of an unsigned type."""
    size = np.dtype(dtype).itemsize
    return stream.random_raw(-(-count * size // 8)).astype("<u8").view(dtype)[:count]


def random_normals(stream: np.random.Philox, count: int) -> Floats:
    """Nearly normal values of deviation 1: sums of four 16-bit words (Irwin-Hall)."""
    words = random_words(stream, count * 4, np.uint16).reshape(count, 4)
    total = words.sum(axis=1, dtype=np.int32) - np.int32(2 * 65535)
    return total.astype(np.float32) * np.float32(np.sqrt(3.0) / 65536)


def row_size(name: str, fmt: str, columns: int) -> int:
    """Return the bytes of a row, or raise ``ValueError`` naming the tensor."""
    if fmt in _FLOATS:
        return columns * _FLOATS[fmt]
    per_block, size = _BLOCKS[fmt].values, _BLOCKS[fmt].bytes
    if columns % per_block:
        raise ValueError(f"{name}: rows of {columns} weights do not divide into {fmt} blocks")
    return columns // per_block * size


def random_rows(stream: np.random.Philox, fmt: str, deviation: Floats, columns: int) -> Bytes:
    """Return the bytes of ``len(deviation)`` rows, each with its standard deviation."""
    rows = len(deviation)
    if fmt in _FLOATS:
        values = random_normals(stream, rows * columns).reshape(rows, columns) * deviation[:, None]
        return _float_bytes(values, fmt)
    block = _BLOCKS[fmt]
    per_block, size = block.values, block.bytes
    n_blocks = rows * (columns // per_block)
    blocks = random_words(stream, n_blocks * size, np.uint8).reshape(n_blocks, size).copy()
    unit = np.repeat(deviation, columns // per_block) / np.float32(block.deviation)
    jitter = random_words(stream, n_blocks, np.uint16).astype(np.float32) / np.float32(65536)
    unit = unit * (np.float32(0.75) + np.float32(0.5) * jitter)
    block.fill(blocks, unit)
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


def _q2(blocks: Bytes, unit: Floats) -> None:
    blocks[:, :16] = (8 + blocks[:, :16] % 8) * 17  # 8 .. 15, and minima like them
    step = unit / np.float32(11.7)  # root mean square of the scales
    _put(blocks, 80, step)
    _put(blocks, 82, step * np.float32(1.5))


def _plain(offset: int, scales: float = 1.0) -> Callable[[Bytes, Floats], None]:
    """One scale at ``offset``; the root mean square of random ones inside the block is known."""
    return lambda blocks, unit: _put(blocks, offset, unit / np.float32(scales))


def _power(blocks: Bytes, unit: Floats) -> None:
    """MXFP4: the scale is the power of two below."""
    blocks[:, 0] = np.frexp(unit)[1] + 127


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """Blocks of ``values`` weights in ``bytes`` bytes, made of random bytes and a scale.

    ``fill`` writes scales so that a code of deviation ``deviation`` has the wanted one.
    """

    values: int
    bytes: int
    deviation: float
    fill: Callable[[Bytes, Floats], None]


def _uniform(bits: int) -> float:
    return float(2**bits / 12**0.5)


_FLOATS = {"F32": 4, "F16": 2, "BF16": 2}
_BLOCKS = {
    "Q4_0": BlockFormat(32, 18, _uniform(4), _signed),
    "Q4_1": BlockFormat(32, 20, _uniform(4), _offset(4)),
    "Q5_0": BlockFormat(32, 22, _uniform(5), _signed),
    "Q5_1": BlockFormat(32, 24, _uniform(5), _offset(5)),
    "Q8_0": BlockFormat(32, 34, _uniform(8), _q8),
    "Q2_K": BlockFormat(256, 84, _uniform(2), _q2),
    "Q3_K": BlockFormat(256, 110, _uniform(3), _plain(108, 18.5)),
    "Q4_K": BlockFormat(256, 144, _uniform(4), _packed(4)),
    "Q5_K": BlockFormat(256, 176, _uniform(5), _packed(5)),
    "Q6_K": BlockFormat(256, 210, _uniform(6), _q6),
    # Codes that stand for other numbers: the deviation of these.
    "IQ4_NL": BlockFormat(32, 18, 67.1, _plain(0)),
    "IQ4_XS": BlockFormat(256, 136, 67.1, _plain(0, 18.5)),
    "MXFP4": BlockFormat(32, 17, 5.85 * 0.75, _power),
    "IQ2_XXS": BlockFormat(256, 66, 53.3, _plain(0)),
    "IQ2_XS": BlockFormat(256, 74, 55.8, _plain(0)),
    "IQ2_S": BlockFormat(256, 82, 56.3, _plain(0)),
    "IQ3_XXS": BlockFormat(256, 98, 142.5, _plain(0)),
    "IQ3_S": BlockFormat(256, 110, 140.2, _plain(0)),
}

FORMATS = (*_FLOATS, *_BLOCKS)
K_FORMATS = tuple(fmt for fmt, block in _BLOCKS.items() if block.values == 256)
"""Formats with blocks of 256 weights: they need the row lengths of ``TINY_K``."""
