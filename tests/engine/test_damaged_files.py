"""Files damaged by chance: a typed error, or a model."""

from __future__ import annotations

from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

import maglio
from maglio.errors import ModelFileError
from support.models import FAMILIES
from support.small_files import Files, little_memory, survives, take_apart

POSITIONS = st.one_of(st.integers(0, 40), st.integers(0, 1700), st.integers(0, 2**20))
BYTES = st.one_of(st.sampled_from([b"\0", b"\xff", b"\x80", b"\xff" * 8, b"\0" * 8]), st.binary())
DAMAGES = st.lists(
    st.tuples(st.sampled_from(["flip", "overwrite", "insert", "delete", "cut"]), POSITIONS, BYTES),
    min_size=1,
    max_size=4,
)


def damaged(data: bytes, damages: list[tuple[str, int, bytes]]) -> bytes:
    for how, position, extra in damages:
        at = position % (len(data) + 1)
        if how == "flip":
            flipped = bytes(byte ^ 1 << position % 8 for byte in data[at : at + 1])
            data = data[:at] + flipped + data[at + 1 :]
        elif how == "overwrite":
            data = data[:at] + extra + data[at + len(extra) :]
        elif how == "insert":
            data = data[:at] + extra + data[at:]
        elif how == "delete":
            data = data[:at] + data[at + max(1, len(extra)) :]
        else:
            data = data[:at]
    return data


@settings(max_examples=1500, deadline=None)
@given(family=st.sampled_from(FAMILIES), damages=DAMAGES)
@example(family="llama", damages=[("overwrite", 12, b"\xff" * 8)])
def test_chance_damage_ends_in_a_typed_error_or_a_model(
    sound: Files, folder: Path, family: str, damages: list[tuple[str, int, bytes]]
) -> None:
    survives(damaged(sound[family], damages), folder)


@settings(max_examples=500, deadline=None)
@given(damages=DAMAGES)
def test_chance_damage_to_a_vocabulary_ends_so_too(
    sound: Files, folder: Path, damages: list[tuple[str, int, bytes]]
) -> None:
    path = folder / "model.gguf"
    path.write_bytes(damaged(sound["with a vocabulary"], damages))
    try:
        with little_memory():
            model = maglio.load(path, threads=1)
    except ModelFileError:
        return
    model.tokenizer.decode(model.tokenizer.encode("abc é"))


@settings(max_examples=300, deadline=None)
@given(
    family=st.sampled_from(FAMILIES),
    index=st.integers(0, 100),
    value=st.one_of(
        st.integers(0, 2**32 - 1), st.floats(width=32), st.booleans(), st.text(max_size=9)
    ),
)
def test_any_value_for_any_key_ends_so_too(
    sound: Files, folder: Path, family: str, index: int, value: object
) -> None:
    raw = take_apart(sound, folder, family)
    key = raw.values[index % len(raw.values)][0].decode()
    raw.set(key, value)
    survives(raw.to_bytes(), folder)
