"""GGUF files taken apart and put together again, to damage them on purpose.

Written apart from the reader under test: it knows the format and checks nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

MAGIC = b"GGUF"
FORMATS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64, FLOAT64 = 4, 5, 6, 7, 8, 9, 10, 12

Value = bool | int | float | str | Sequence[str] | np.ndarray


@dataclass
class RawTensor:
    """A directory entry and its data; ``offset`` is where the data goes unless it is given."""

    dims: list[int]
    kind: int
    data: bytes
    offset: int | None = None


@dataclass
class RawGguf:
    """Everything in a file. Values are (type, bytes behind the type), names are bytes."""

    values: list[tuple[bytes, int, bytes]] = field(default_factory=list)
    tensors: dict[bytes, RawTensor] = field(default_factory=dict)
    magic: bytes = MAGIC
    version: int = 3
    n_values: int | None = None
    n_tensors: int | None = None

    @classmethod
    def read(cls, path: Path) -> RawGguf:
        """Take apart a sound file of aligned tensors."""
        reader = _Reader(path.read_bytes())
        reader.take(4)
        raw = cls(version=reader.number("I"))
        n_tensors, n_values = reader.number("Q"), reader.number("Q")
        for _ in range(n_values):
            key, kind, start = reader.string(), reader.number("I"), reader.at
            reader.skip(kind)
            raw.values.append((key, kind, reader.data[start : reader.at]))
        entries = []
        for _ in range(n_tensors):
            name = reader.string()
            dims = [reader.number("Q") for _ in range(reader.number("I"))]
            entries.append((name, dims, reader.number("I"), reader.number("Q")))
        base = -(-reader.at // 32) * 32
        ends = [*(offset for *_, offset in entries[1:]), len(reader.data) - base]
        for (name, dims, kind, offset), end in zip(entries, ends, strict=True):
            raw.tensors[name] = RawTensor(dims, kind, reader.data[base + offset : base + end])
        return raw

    def set(self, key: str, value: Value, kind: int | None = None) -> None:
        """Add or replace a value; ``kind`` chooses another type than the usual one."""
        entry = (key.encode(), *encode_value(value, kind))
        keys = [name for name, *_ in self.values]
        if entry[0] in keys:
            self.values[keys.index(entry[0])] = entry
        else:
            self.values.append(entry)

    def drop(self, key: str) -> None:
        """Remove a value."""
        self.values = [entry for entry in self.values if entry[0] != key.encode()]

    def header(self) -> bytes:
        """Return everything before the data."""
        out = bytearray(self.magic)
        out += struct.pack("<I", self.version)
        out += struct.pack("<Q", len(self.tensors) if self.n_tensors is None else self.n_tensors)
        out += struct.pack("<Q", len(self.values) if self.n_values is None else self.n_values)
        for key, kind, payload in self.values:
            out += struct.pack("<Q", len(key)) + key + struct.pack("<I", kind) + payload
        at = 0
        for name, tensor in self.tensors.items():
            out += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(tensor.dims))
            out += struct.pack(f"<{len(tensor.dims)}Q", *tensor.dims)
            offset = at if tensor.offset is None else tensor.offset
            out += struct.pack("<IQ", tensor.kind, offset)
            at += -(-len(tensor.data) // 32) * 32
        return bytes(out)

    def to_bytes(self) -> bytes:
        """Put the file together."""
        parts = [self.header(), *(tensor.data for tensor in self.tensors.values())]
        return b"".join(part.ljust(-(-len(part) // 32) * 32, b"\0") for part in parts)


def encode_value(value: Value, kind: int | None = None) -> tuple[int, bytes]:
    """Return a value's type and the bytes behind it."""
    if isinstance(value, str):
        return STRING, _string(value.encode())
    if isinstance(value, np.ndarray):
        kinds = {"i": INT32, "f": FLOAT32, "b": BOOL, "u": UINT32}
        array = value.astype({"i": "<i4", "f": "<f4", "b": "?", "u": "<u4"}[value.dtype.kind])
        return ARRAY, struct.pack("<IQ", kinds[value.dtype.kind], len(array)) + array.tobytes()
    if isinstance(value, Sequence):
        items = b"".join(_string(item.encode()) for item in value)
        return ARRAY, struct.pack("<IQ", STRING, len(value)) + items
    if kind is None:
        kind = BOOL if isinstance(value, bool) else UINT32 if isinstance(value, int) else FLOAT32
    return kind, struct.pack("<" + FORMATS[kind], value)


def _string(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, n: int) -> bytes:
        self.at += n
        return self.data[self.at - n : self.at]

    def number(self, code: str) -> int:
        return struct.unpack("<" + code, self.take(struct.calcsize(code)))[0]

    def string(self) -> bytes:
        return self.take(self.number("Q"))

    def skip(self, kind: int) -> None:
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            kind, count = self.number("I"), self.number("Q")
            for _ in range(count):
                self.skip(kind)
        else:
            self.number(FORMATS[kind])
