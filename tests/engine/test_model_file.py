"""Damaged, hostile and unsupported files: one typed error that names the file and says why."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from support.gguf_bytes import STRING, UINT32, RawGguf
from support.models import FAMILIES
from support.small_files import Files, complaint, load, take_apart

TQ2_0 = 35


def test_what_was_put_together_again_is_the_same_file(sound: Files, folder: Path) -> None:
    for name, data in sound.items():
        assert take_apart(sound, folder, name).to_bytes() == data
        load(data, folder)


# --- the header -----------------------------------------------------------------------------------


def test_other_files_are_refused(raw: RawGguf, folder: Path) -> None:
    raw.magic = b"GGML"
    assert "not a GGUF file" in complaint(raw.to_bytes(), folder)
    assert "not a GGUF file" in complaint(b"", folder)
    assert "not a GGUF file" in complaint(b"GGU", folder)


@pytest.mark.parametrize("version", [0, 1, 4, 2**31, 3 << 24])
def test_other_versions_are_refused(raw: RawGguf, folder: Path, version: int) -> None:
    raw.version = version
    assert "versions 2 and 3" in complaint(raw.to_bytes(), folder)


def test_version_2_loads(raw: RawGguf, folder: Path) -> None:
    raw.version = 2
    load(raw.to_bytes(), folder)


@pytest.mark.parametrize("field", ["n_values", "n_tensors"])
@pytest.mark.parametrize("count", [10**5, 2**32, 2**62, 2**64 - 1])
def test_counts_that_cannot_be_are_refused(
    raw: RawGguf, folder: Path, field: str, count: int
) -> None:
    setattr(raw, field, count)
    assert "damaged" in complaint(raw.to_bytes(), folder)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_file_cut_anywhere_in_its_header_is_refused(
    sound: Files, folder: Path, family: str
) -> None:
    header = len(take_apart(sound, folder, family).header())
    for size in range(header):
        complaint(sound[family][:size], folder)


def test_a_file_cut_in_its_data_is_refused(sound: Files, folder: Path) -> None:
    assert "past the end" in complaint(sound["llama"][:-32], folder)


def string(length: int, text: bytes = b"") -> bytes:
    return struct.pack("<Q", length) + text


@pytest.mark.parametrize(
    "entry",
    [
        (b"k", STRING, string(2**63)),
        (b"k", STRING, string(2**64 - 1)),
        (b"k", 9, struct.pack("<IQ", 6, 2**62)),
        (b"k", 9, struct.pack("<IQ", STRING, 2**61)),
        (b"k", 9, struct.pack("<IQ", 9, 1) + struct.pack("<IQ", 6, 0)),
        (b"k", 13, b"1234"),
        (b"k", 9, struct.pack("<IQ", 99, 1)),
        (b"", UINT32, b"1234"),
        (b"k" * 70000, UINT32, b"1234"),
        (b"general.architecture", STRING, string(5, b"llama")),
    ],
    ids=[
        "absurd string", "string length wraps", "absurd array", "absurd array of strings",
        "nested array", "unknown type", "unknown element type", "empty key", "absurd key",
        "duplicate key",
    ],
)  # fmt: skip
def test_metadata_that_cannot_be_is_refused(
    raw: RawGguf, folder: Path, entry: tuple[bytes, int, bytes]
) -> None:
    raw.values.append(entry)
    complaint(raw.to_bytes(), folder)


def test_text_that_is_not_utf_8_is_only_text(raw: RawGguf, folder: Path) -> None:
    raw.values.append((b"\xff\xfe", STRING, string(3, b"\x80\xc3\x28")))
    load(raw.to_bytes(), folder)
    raw.set("general.architecture", "llama")
    raw.values[0] = (b"general.architecture", STRING, string(2, b"\xff\xfe"))
    assert "architecture" in complaint(raw.to_bytes(), folder)


@pytest.mark.parametrize("alignment", [0, 3, 48, 2**31])
def test_an_alignment_that_cannot_be_is_refused(raw: RawGguf, folder: Path, alignment: int) -> None:
    raw.set("general.alignment", alignment)
    assert "alignment" in complaint(raw.to_bytes(), folder)


# --- the tensor directory -------------------------------------------------------------------------

QUERY = b"blk.0.attn_q.weight"


def _set(name: str, value: object) -> Callable[[RawGguf], None]:
    return lambda raw: setattr(raw.tensors[QUERY], name, value)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (_set("offset", 2**40), "past the end"),
        (_set("offset", 2**64 - 32), "past the end"),
        (_set("offset", 0), "overlap"),
        (_set("offset", 33), "aligned"),
        (_set("dims", [32, 0]), "dimension of zero"),
        (_set("dims", []), "0 dimensions"),
        (_set("dims", [32, 1, 1, 1, 1]), "5 dimensions"),
        (_set("dims", [2**63, 2]), "attn_q.weight"),
        (_set("dims", [32, 2**60]), "attn_q.weight"),
        (_set("dims", [31, 32]), "32-value blocks"),
        (_set("dims", [32, 31]), "31 x 32, expected 32 x 32"),
        (_set("dims", [64, 16]), "16 x 64, expected 32 x 32"),
        (_set("dims", [1024]), "1 x 1024, expected 32 x 32"),
        (_set("dims", [32, 16, 2]), "2 x 16 x 32, expected 32 x 32"),
        (_set("dims", [32, 16, 1, 2]), "shape of a matrix"),
        (
            _set("kind", TQ2_0),
            "attn_q.weight' has the type TQ2_0, which the native engine does not read",
        ),
        (_set("kind", 4), "Q4_2, which the native engine does not read; use a file"),
        (_set("kind", 2**31), "unknown, which the native engine does not read; use a file"),
        (lambda raw: raw.tensors.pop(QUERY), "'blk.0.attn_q.weight' is missing"),
        (lambda raw: raw.tensors.pop(b"token_embd.weight"), "'token_embd.weight' is missing"),
        (
            lambda raw: raw.tensors.update({b"blk.0.gate_inp": raw.tensors[QUERY]}),
            "'blk.0.gate_inp' is not part of the llama models",
        ),
        (
            lambda raw: raw.tensors.update({b"n" * 2000: raw.tensors[QUERY]}),
            "tensor name of 2000 bytes",
        ),
    ],
)
def test_tensors_that_cannot_be_used_are_refused(
    raw: RawGguf, folder: Path, damage: Callable[[RawGguf], object], says: str
) -> None:
    damage(raw)
    assert says in complaint(raw.to_bytes(), folder)


def test_a_tensor_named_twice_is_refused(raw: RawGguf, folder: Path) -> None:
    data = raw.to_bytes().replace(b"blk.0.attn_q.weight", b"blk.0.attn_k.weight", 1)
    assert "'blk.0.attn_k.weight' appears twice" in complaint(data, folder)


def test_vectors_of_a_wrong_kind_are_refused(raw: RawGguf, folder: Path) -> None:
    raw.tensors[b"output_norm.weight"].dims = [16]
    assert "tensor 'output_norm.weight' has 16 values, expected 32" in complaint(
        raw.to_bytes(), folder
    )
    raw.tensors[b"output_norm.weight"] = raw.tensors[QUERY]
    assert "'output_norm.weight' must be a vector" in complaint(raw.to_bytes(), folder)


@pytest.mark.parametrize("name", [b"attention\xff", b"\xec\x9c", "größe".encode()])
def test_a_tensor_whose_name_is_not_ascii_is_refused_by_name(
    raw: RawGguf, folder: Path, name: bytes
) -> None:
    raw.tensors[name] = raw.tensors[QUERY]
    assert name.decode(errors="backslashreplace") in complaint(raw.to_bytes(), folder)
