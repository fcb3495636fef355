"""Whatever is wrong with a benchmark file is a DataFileError that says where."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from maglio.bench.data import read_dialogues
from maglio.bench.runs_file import read_runs
from maglio.errors import DataFileError

LINE = '{"question": "q", "answer": "a"}'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"{LINE}\n{LINE}\n{{broken\n", 3),
        (f"\n\n{LINE}\n\n{{broken\n{LINE}\n", 5),
        (f"{LINE}\n{LINE}\n" + "[" * 100_000, 3),
        ('[\n{"question": "q"},\n{broken\n]', 3),
    ],
)
def test_a_broken_line_is_reported_under_its_number(tmp_path, text, line):
    path = tmp_path / "data.jsonl"
    path.write_text(text)
    with pytest.raises(DataFileError, match=rf"data\.jsonl .* line {line}: "):
        read_dialogues(path)


def test_a_byte_order_mark_is_not_part_of_a_line(tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text("\ufeff" + LINE)
    assert len(read_dialogues(path)) == 1


def array(header):
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


MEMBERS = {
    "a header that is not Python": array(b"{'descr': (((((("),
    "a shape larger than memory": array(
        b"{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999,)}"
    ),
    "a shape beyond all integers": array(
        b"{'descr': '<i4', 'fortran_order': False, 'shape': (" + b"9" * 40 + b",)}"
    ),
    "a type that does not exist": array(
        b"{'descr': '<q99', 'fortran_order': False, 'shape': (1,)}"
    ),
    "objects": array(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}") + b"x" * 9,
    "no array": b"nonsense",
}


@pytest.mark.parametrize("member", MEMBERS.values(), ids=MEMBERS.keys())
def test_a_damaged_recording_is_a_data_file_error(tmp_path, member):
    path = tmp_path / "runs.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("00.output.npy", member)
        archive.writestr("00.prompt.npy", member)
    with pytest.raises(DataFileError, match=r"runs\.npz"):
        read_runs(path)


def test_a_locked_or_strangely_packed_recording_is_a_data_file_error(tmp_path):
    packed = io.BytesIO()
    np.savez(packed, **{"00.output": np.arange(3), "00.prompt": np.arange(3)})
    for position, value in ((6, 1), (8, 99)):  # the flags and the method of the first member
        data = bytearray(packed.getvalue())
        local, central = data.index(b"PK\x03\x04"), data.index(b"PK\x01\x02")
        for member in range(data.count(b"PK\x01\x02")):
            data[local + position] = value
            data[central + position + 2] = value
            if member == 0:
                local = data.index(b"PK\x03\x04", local + 1)
                central = data.index(b"PK\x01\x02", central + 1)
        (tmp_path / "runs.npz").write_bytes(data)
        with pytest.raises(DataFileError, match=r"runs\.npz"):
            read_runs(tmp_path / "runs.npz")
