"""Models in several files: found from the first, and refused by name if one is not sound."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio.engine.native import NativeEngine
from maglio.engine.session import Session
from maglio.errors import ModelFileError
from maglio.gguf import ModelFile
from support.gguf_bytes import INT32, RawGguf
from support.small_files import Files, little_memory, take_apart

UINT16 = 2
COUNT = 3


def split(raw: RawGguf, count: int = COUNT) -> list[RawGguf]:
    """Return the parts as llama-gguf-split makes them: the metadata is in the first."""
    names = list(raw.tensors)
    parts = [RawGguf() for _ in range(count)]
    parts[0].values = list(raw.values)
    for number, part in enumerate(parts):
        mine = names[number * len(names) // count : (number + 1) * len(names) // count]
        part.tensors = {name: raw.tensors[name] for name in mine}
        part.set("split.no", number, UINT16)
        part.set("split.count", count, UINT16)
        part.set("split.tensors.count", len(names), INT32)
    return parts


@pytest.fixture
def parts(raw: RawGguf) -> list[RawGguf]:
    return split(raw)


def paths(folder: Path, count: int = COUNT) -> list[Path]:
    return [folder / f"model-{n + 1:05}-of-{count:05}.gguf" for n in range(count)]


def write(folder: Path, parts: list[RawGguf]) -> Path:
    for path, part in zip(paths(folder, len(parts)), parts, strict=True):
        path.write_bytes(part.to_bytes())
    return paths(folder, len(parts))[0]


def complaint(path: Path) -> str:
    with pytest.raises(ModelFileError) as caught, little_memory():
        NativeEngine(ModelFile(path), threads=1)
    return str(caught.value)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_split_model_is_the_model_that_was_split(
    raw: RawGguf, tmp_path: Path, count: int
) -> None:
    whole = tmp_path / "whole.gguf"
    whole.write_bytes(raw.to_bytes())
    first = write(tmp_path, split(raw, count))
    expected = Session(NativeEngine(ModelFile(whole), threads=1)).forward([1, 2])
    file = ModelFile(first)
    assert file.size == sum(path.stat().st_size for path in paths(tmp_path, count))
    assert np.array_equal(Session(NativeEngine(file, threads=2)).forward([1, 2]), expected)


def test_a_first_part_may_hold_no_tensors(raw: RawGguf, tmp_path: Path) -> None:
    parts = split(raw)
    parts[1].tensors = {**parts[0].tensors, **parts[1].tensors}
    parts[0].tensors = {}
    NativeEngine(ModelFile(write(tmp_path, parts)), threads=1)


def test_a_split_model_of_one_part_may_have_any_name(raw: RawGguf, tmp_path: Path) -> None:
    path = tmp_path / "any.gguf"
    path.write_bytes(split(raw, 1)[0].to_bytes())
    NativeEngine(ModelFile(path), threads=1)


def test_a_later_part_says_which_file_to_load(parts: list[RawGguf], tmp_path: Path) -> None:
    first = write(tmp_path, parts)
    says = complaint(paths(tmp_path)[1])
    assert "part 2 of 3" in says
    assert f"load {first}" in says


def test_a_part_by_another_name_says_what_it_should_be(
    parts: list[RawGguf], tmp_path: Path
) -> None:
    path = write(tmp_path, parts).rename(tmp_path / "renamed.gguf")
    assert "-00001-of-00003.gguf" in complaint(path)


def test_a_missing_part_is_named(parts: list[RawGguf], tmp_path: Path) -> None:
    first = write(tmp_path, parts)
    paths(tmp_path)[2].unlink()
    says = complaint(first)
    assert "model-00003-of-00003.gguf: part 3 of 3 of the model is missing" in says


def _numbered(part: RawGguf, number: int, count: int) -> None:
    part.set("split.no", number, UINT16)
    part.set("split.count", count, UINT16)


@pytest.mark.parametrize(
    ("damage", "name", "says"),
    [
        (lambda p: _numbered(p[1], 2, 3), "00002", "says that it is part 3 of 3"),
        (lambda p: _numbered(p[2], 0, 3), "00003", "says that it is part 1 of 3"),
        (lambda p: _numbered(p[1], 1, 4), "00002", "says that it is part 2 of 4"),
        (lambda p: (p[1].drop("split.no"), p[1].drop("split.count")), "00002", "part 1 of 1"),
        (lambda p: p[1].set("split.no", "two"), "00002", "not a count"),
        (lambda p: p[1].set("split.no", True), "00002", "not a count"),
        (lambda p: p[1].set("split.count", [1, 2][0:0]), "00002", "not a count"),
        (lambda p: p[0].set("split.count", -3, INT32), "00001", "not a count"),
        (lambda p: p[0].set("split.no", 1, UINT16), "00001", "has to end in -00002-of-00003"),
        (lambda p: p[0].set("split.count", 65535, UINT16), "00001", "part 1 of 65535"),
        (lambda p: p[0].set("split.tensors.count", 99, INT32), "00001", "announces 99 tensors"),
        (lambda p: p[2].tensors.popitem(), "00001", "announces"),
        (lambda p: p[2].tensors.update(p[1].tensors), "00001", "announces"),
        (lambda p: setattr(p[1], "magic", b"GGML"), "00002", "not a GGUF file"),
        (lambda p: setattr(p[2], "n_tensors", 10**6), "00003", "damaged"),
    ],
)
def test_a_part_that_lies_is_named(
    parts: list[RawGguf],
    tmp_path: Path,
    damage: Callable[[list[RawGguf]], object],
    name: str,
    says: str,
) -> None:
    damage(parts)
    message = complaint(write(tmp_path, parts))
    assert re.search(rf"model-{name}-of-00003\.gguf: .*{says}", message)


def test_a_tensor_in_two_parts_is_refused_by_name(parts: list[RawGguf], tmp_path: Path) -> None:
    twice = next(iter(parts[0].tensors))
    parts[2].tensors.popitem()
    parts[2].tensors[twice] = parts[0].tensors[twice]
    says = complaint(write(tmp_path, parts))
    assert f"tensor '{twice.decode()}' is in part 1 and in part 3" in says


def test_a_part_that_is_cut_short_while_it_loads_is_named(
    parts: list[RawGguf], tmp_path: Path
) -> None:
    file = ModelFile(write(tmp_path, parts))
    paths(tmp_path)[1].write_bytes(b"GGUF")
    with pytest.raises(ModelFileError, match="part 2 of 3: it was cut short"):
        NativeEngine(file, threads=1)


@settings(max_examples=300, deadline=None)
@given(
    which=st.integers(0, COUNT - 1),
    position=st.integers(0, 400),
    extra=st.sampled_from([b"\0", b"\xff", b"\x01", b"\xff" * 8, b"\0" * 8]),
)
def test_chance_damage_to_a_part_ends_in_a_typed_error_or_a_model(
    sound: Files, folder: Path, which: int, position: int, extra: bytes
) -> None:
    parts = split(take_apart(sound, folder, "llama"))
    first = write(folder, parts)
    path = paths(folder)[which]
    data = path.read_bytes()
    path.write_bytes(data[:position] + extra + data[position + len(extra) :])
    try:
        with little_memory():
            engine = NativeEngine(ModelFile(first), threads=1)
    except ModelFileError:
        return
    Session(engine).forward([1])
