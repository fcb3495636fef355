"""Runs of a model: what is recorded, how it is stored, and what is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from maglio.bench.record import record_run
from maglio.bench.runs_file import read_runs, write_runs
from maglio.engine.session import Session
from maglio.errors import ContextFullError, DataFileError, InvalidArgumentError
from support.toy_engine import ToyEngine

PROMPT = [3, 14, 15, 9]


def toy_session(**engine) -> Session:
    return Session(ToyEngine(**engine))


def toy_run(max_tokens=6, **kwargs):
    return record_run(
        toy_session(n_ctx=64), PROMPT, category="toy", max_tokens=max_tokens, **kwargs
    )


def test_every_row_is_recorded_where_its_token_is():
    run = toy_run()
    stream = [*run.prompt.tolist(), *run.output.tolist()]
    ids = np.concatenate([run.prompt_ids, run.output_ids])
    logits = np.concatenate([run.prompt_logits, run.output_logits])
    assert len(run.output) == 6
    for place in range(len(stream)):
        row = ToyEngine().row(stream[: place + 1])
        best = np.argsort(-row, kind="stable")[:8]
        assert ids[place].tolist() == best.tolist()
        assert logits[place].tolist() == row[best].tolist()
    assert stream[len(PROMPT) :] == ids[len(PROMPT) - 1 : -1, 0].tolist()


def test_a_run_ends_with_its_stop_token_or_the_context():
    whole = toy_run().output.tolist()
    assert toy_run(stop_tokens=[whole[2]]).output.tolist() == whole[: whole.index(whole[2]) + 1]
    short = record_run(toy_session(n_ctx=7), PROMPT, category="toy", max_tokens=60)
    assert len(short.output) == 3


def test_prompts_that_cannot_run_are_refused():
    with pytest.raises(ContextFullError):
        record_run(toy_session(n_ctx=4), PROMPT, category="toy", max_tokens=1)
    with pytest.raises(InvalidArgumentError):
        record_run(toy_session(), [], category="toy", max_tokens=1)


def test_a_recording_comes_back_as_it_was(tmp_path):
    runs = [toy_run(), dataclasses.replace(toy_run(3), prompt_logits=None, output_logits=None)]
    write_runs(tmp_path / "runs.npz", runs)
    read = read_runs(tmp_path / "runs.npz")
    assert len(read) == 2
    for run, again in zip(runs, read, strict=True):
        for field in dataclasses.fields(run):
            np.testing.assert_array_equal(getattr(run, field.name), getattr(again, field.name))
    assert len(read_runs(tmp_path / "runs.npz", limit=1)) == 1


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "runs.npz"
    write_runs(path, [toy_run()])
    before = path.read_bytes()

    def broken():
        yield toy_run()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_runs(path, broken())
    assert path.read_bytes() == before
    with pytest.raises(DataFileError, match="cannot write"):
        write_runs(tmp_path / "no folder" / "runs.npz", [toy_run()])
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"00.output_top8": None}, "output_top8 is missing"),
        ({"00.output_top8": np.zeros((5, 8), np.int32)}, "has shape"),
        ({"00.prompt": np.zeros((2, 2), np.int32)}, "has shape"),
        ({"00.output": np.array([-1], np.int32)}, "no token id"),
        ({"00.output": np.array([0.5])}, "no token id"),
        ({"00.category": np.array(3)}, "no text"),
        ({"00.output_logits8": np.zeros((6, 8), np.float64)}, "output_logits8 is float64"),
        ({"00.category": np.array({}, dtype=object)}, "damaged"),
    ],
)
def test_wrong_arrays_are_refused_by_name(tmp_path, change, message):
    path = tmp_path / "runs.npz"
    write_runs(path, [toy_run()])
    arrays = dict(np.load(path)) | change
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(DataFileError, match=message):
        read_runs(path)


def test_damaged_recordings_are_refused(tmp_path):
    path = tmp_path / "runs.npz"
    write_runs(path, [toy_run()])
    whole = path.read_bytes()
    middle = len(whole) // 3
    for damaged in (
        b"",
        b"no zip",
        whole[:-30],
        whole[:middle] + b"\0" * 40 + whole[middle + 40 :],
    ):
        path.write_bytes(damaged)
        with pytest.raises(DataFileError, match=r"runs\.npz"):
            read_runs(path)
    np.savez(path, other=np.zeros(3))
    with pytest.raises(DataFileError, match="no recorded runs"):
        read_runs(path)
    with pytest.raises(DataFileError, match="cannot read"):
        read_runs(tmp_path / "missing.npz")
