"""The file of results: read as it was written, gone on with, and never trusted."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.field_samples import HEADER, run
from maglio.bench.field.line import PeakMemory
from maglio.bench.field.results import as_line, parse_results, read_results
from maglio.bench.field.results_file import ResultsFile
from maglio.errors import DataFileError
from support.field_results import point

COUNT = st.integers(0, 2**40)
SECONDS = st.floats(0, 1e6)


@settings(max_examples=25)
@given(
    st.builds(
        run,
        round=COUNT,
        temperature=SECONDS,
        tokens=COUNT,
        decode_s=SECONDS,
        first_token_s=SECONDS,
        steps=st.none() | COUNT,
        drafted=st.none() | COUNT,
        accepted=st.none() | COUNT,
        equal=st.none() | st.booleans(),
        error=st.none() | st.text(),
        prompt=st.text(),
    )
)
def test_lines_are_read_as_they_were_written(line):
    found = parse_results(as_line(HEADER) + as_line(line), "f")
    assert found.header == HEADER
    assert found.runs == (line,)


def test_memory_is_the_most_that_was_seen_and_growth_points_keep_their_order():
    points = [point("context", x, 2.0, contestant="maglio") for x in (2.0, 1.0)]
    points.append(point("index", 1.0, 3.0))
    lines = [HEADER, PeakMemory("maglio", 5), *points, PeakMemory("maglio", 4)]
    found = parse_results(b"".join(map(as_line, lines)), "f")
    assert found.memory == {"maglio": 5}
    assert found.growth == tuple(points)


def test_a_torn_last_line_is_left_out(tmp_path):
    path = tmp_path / "f.jsonl"
    data = as_line(HEADER) + as_line(run())
    path.write_bytes(data + as_line(run(round=1))[:-1])
    assert len(read_results(path).runs) == 1


def changed(line, **values) -> bytes:
    return json.dumps({**json.loads(as_line(line)), **values}).encode() + b"\n"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "first line"),
        ([as_line(run())], "first line"),
        ([b"nonsense\n"], "line 1 is not valid JSON"),
        ([b"[1]\n"], "line 1 is not a JSON object"),
        ([b"[" * 100_000 + b"\n"], "line 1 is not valid JSON"),
        ([changed(HEADER, version=2)], "version 2"),
        ([changed(HEADER, machine=1)], "'machine' is not an object"),
        ([changed(HEADER, contestants=[1])], "'contestants'"),
        ([as_line(HEADER), as_line(HEADER)], "line 2: a file has one first line"),
        ([as_line(HEADER), as_line(run()), as_line(run())], "line 3: this run stands in"),
        ([as_line(HEADER), changed(run(), tokens=-1)], "line 2: 'tokens' is -1"),
        ([as_line(HEADER), changed(run(), tokens=True)], "'tokens' is True"),
        ([as_line(HEADER), changed(run(), tokens=2.5)], "'tokens' is 2.5"),
        ([as_line(HEADER), changed(run(), decode_s="1")], "'decode_s' is '1'"),
        ([as_line(HEADER), changed(run(), decode_s=1e300)], "'decode_s'"),
        ([as_line(HEADER), as_line(run()).replace(b"0.5", b"NaN")], "not valid JSON: NaN"),
        ([as_line(HEADER), as_line(run()).replace(b"0.5", b"1e999")], "'decode_s' is inf"),
        ([as_line(HEADER), changed(run(), equal=1)], "'equal' is 1"),
        ([as_line(HEADER), changed(run(), kind="walk")], "no kind 'walk'"),
        ([as_line(HEADER), changed(run(), kind=None)], "'kind'"),
        ([as_line(HEADER), as_line(run(contestant="x"))], "names no contestant 'x'"),
        ([as_line(HEADER), as_line(run(task="x"))], "names no task 'x'"),
    ],
)
def test_damage_is_an_error_that_says_where(lines, message):
    with pytest.raises(DataFileError, match="f") as caught:
        parse_results(b"".join(lines), "f")
    assert message in str(caught.value)


def test_a_missing_field_is_not_null():
    line = json.loads(as_line(run()))
    del line["steps"]
    with pytest.raises(DataFileError, match="'steps' is missing"):
        parse_results(as_line(HEADER) + json.dumps(line).encode() + b"\n", "f")


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(DataFileError, match="cannot read"):
        read_results(tmp_path / "none")
    with pytest.raises(DataFileError, match="folder"):
        read_results(tmp_path)


def test_a_file_is_gone_on_with_after_its_last_whole_line(tmp_path):
    path = tmp_path / "f.jsonl"
    with ResultsFile(path, HEADER) as file:
        file.write(run())
    path.write_bytes(path.read_bytes() + b'{"kind": "run", "ta')
    later = replace(HEADER, started="later", machine=replace(HEADER.machine, memory_gb_per_s=1.0))
    with ResultsFile(path, later) as file:
        assert list(file.done.values()) == [run()]
        file.write(run(round=1))
    assert read_results(path).runs == (run(), run(round=1))
    assert read_results(path).header == HEADER


def test_a_first_line_that_was_not_finished_is_written_again(tmp_path):
    path = tmp_path / "f.jsonl"
    for torn in (b"", as_line(HEADER)[:7], as_line(HEADER)[:50]):
        path.write_bytes(torn)
        ResultsFile(path, HEADER).close()
        assert path.read_bytes() == as_line(HEADER)


def test_what_is_somebody_elses_is_left_alone(tmp_path):
    path = tmp_path / "f.jsonl"
    other = as_line(replace(HEADER, max_tokens=5, threads=3))
    for content in (b"my diary", b"my diary\n", other + b"torn", as_line(HEADER) + b"x\n"):
        path.write_bytes(content)
        with pytest.raises(DataFileError):
            ResultsFile(path, HEADER)
        assert path.read_bytes() == content
    path.write_bytes(other)
    with pytest.raises(DataFileError, match="other threads, max_tokens; give the same options"):
        ResultsFile(path, HEADER)


def test_a_file_is_written_by_one_process_at_a_time(tmp_path):
    path = tmp_path / "f.jsonl"
    with ResultsFile(path, HEADER), pytest.raises(DataFileError, match="another process"):
        ResultsFile(path, HEADER)
