"""XXH64, the published algorithm written again: the checksum in files of the core."""

from __future__ import annotations

import struct

MASK = 2**64 - 1
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def rotate(x: int, bits: int) -> int:
    return ((x << bits) | (x >> (64 - bits))) & MASK


def mix(lane: int, word: int) -> int:
    return rotate((lane + word * P2) & MASK, 31) * P1 & MASK


def xxh64(data: bytes, seed: int = 0) -> int:
    """Return the checksum of ``data``."""
    at, h = 0, (seed + P5) & MASK
    if len(data) >= 32:
        lanes = [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed, (seed - P1) & MASK]
        while len(data) - at >= 32:
            words = struct.unpack_from("<4Q", data, at)
            lanes = [mix(lane, word) for lane, word in zip(lanes, words, strict=True)]
            at += 32
        h = sum(rotate(x, b) for x, b in zip(lanes, (1, 7, 12, 18), strict=True)) & MASK
        for lane in lanes:
            h = ((h ^ mix(0, lane)) * P1 + P4) & MASK
    h = (h + len(data)) & MASK
    while len(data) - at >= 8:
        h = (rotate(h ^ mix(0, struct.unpack_from("<Q", data, at)[0]), 27) * P1 + P4) & MASK
        at += 8
    if len(data) - at >= 4:
        h = (rotate(h ^ (struct.unpack_from("<I", data, at)[0] * P1 & MASK), 23) * P2 + P3) & MASK
        at += 4
    for byte in data[at:]:
        h = rotate(h ^ (byte * P5 & MASK), 11) * P1 & MASK
    h = (h ^ (h >> 33)) * P2 & MASK
    h = (h ^ (h >> 29)) * P3 & MASK
    return h ^ (h >> 32)
