"""Files of batches: what is a request, what is a result, and what is somebody else's."""

from __future__ import annotations

import io
import json
import os
import stat
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maglio.errors import BatchFileError
from maglio.server.batch import requests as batch_requests
from maglio.server.batch import results as batch_results
from maglio.server.batch.requests import LINE_BYTES, RequestFile
from maglio.server.batch.results import ResultFile
from support.batch_lines import chat, chats, line, write_lines


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "requests.jsonl", chats(3))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "results.jsonl"


def reading(source: Path) -> closing[RequestFile]:
    return closing(RequestFile(source))


def ids_of(source: Path) -> dict[str, str]:
    with reading(source) as requests:
        return requests.check()


def result(ids: dict[str, str], custom_id: str, status: int = 200) -> bytes:
    response = {"status_code": status, "request_id": "req_1", "body": {}}
    document = {"id": ids[custom_id], "custom_id": custom_id, "response": response, "error": None}
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


# --- requests -------------------------------------------------------------------------------------


def test_requests_are_read_line_by_line(tmp_path):
    data = b"\xef\xbb\xbf" + b"\r\n\n".join(json.dumps(each).encode() for each in chats(3))
    path = tmp_path / "requests.jsonl"
    path.write_bytes(data)
    with reading(path) as requests:
        assert list(requests.check()) == ["chat-0", "chat-1", "chat-2"]
        read = list(requests)
        assert [request.number for request in read] == [1, 3, 5]
        assert [request.body for request in read] == [each["body"] for each in chats(3)]
        assert [requests.again(request) for request in reversed(read)] == list(reversed(read))


def test_a_stream_is_as_good_as_a_file(source):
    with closing(RequestFile(io.BytesIO(source.read_bytes()))) as requests:
        assert requests.check() == ids_of(source)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (b"{", "it is not valid JSON: EOF while parsing an object at column 1. Nothing"),
        (b'{"custom_id": "a"} x', "it is not valid JSON"),
        (b"\xff", "it is not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b"{}", "Missing required parameter: 'custom_id'"),
        (line("", {}), "custom_id"),
        (line("x" * 513, {}), "custom_id"),
        (line(7, {}), "custom_id"),
        (line("a", {}) | {"method": "GET"}, "Invalid value for 'method'"),
        (line("a", {}) | {"extra": 1}, "extra"),
        (line("a", {}, url="/v1/embeddings"), "url is '/v1/embeddings', must be /v1/chat/"),
        ({"custom_id": "a", "method": "POST", "url": "/v1/completions"}, "'body'"),
        (line("chat-1", {}), "custom_id 'chat-1' is an earlier line's too"),
    ],
)
def test_a_line_that_is_no_request_is_an_error_that_names_it(tmp_path, broken, says):
    path = write_lines(tmp_path / "requests.jsonl", chats(2))
    with path.open("ab") as file:
        file.write(broken if isinstance(broken, bytes) else json.dumps(broken).encode())
    with pytest.raises(BatchFileError, match=r"requests\.jsonl, line 3: ") as error:
        ids_of(path)
    assert says in str(error.value)
    assert str(error.value).endswith(". Nothing was run")
    assert ".." not in str(error.value)


def test_one_error_says_how_many_lines_cannot_be_used(tmp_path):
    path = write_lines(tmp_path / "requests.jsonl", [1, *chats(1), 2, 3])
    with pytest.raises(BatchFileError, match=r"line 1: .*; 2 more lines cannot be used\."):
        ids_of(path)


def test_a_body_may_be_anything(tmp_path):
    path = write_lines(tmp_path / "requests.jsonl", [line("a", []), line("b", 7), line("c", "x")])
    with reading(path) as requests:
        assert [request.body for request in requests] == [[], 7, "x"]


@pytest.mark.parametrize("says_url", [True, False])
def test_a_line_over_the_limit_is_known_by_its_names_alone(tmp_path, says_url):
    path = tmp_path / "requests.jsonl"
    url = b'"url":"/v1/completions",' if says_url else b""
    with path.open("wb") as file:
        file.write(b'{"custom_id":"long","method":"POST",' + url + b'"body":{"prompt":"')
        file.write(b"x" * LINE_BYTES + b'"}}\n')
        file.write(json.dumps(line("short", {})).encode())
    with reading(path) as requests:
        long, short = requests
    assert (long.custom_id, long.body) == ("long", None)
    assert long.url == ("/v1/completions" if says_url else "/v1/chat/completions")
    assert long.size > LINE_BYTES
    assert (short.custom_id, short.number) == ("short", 2)
    with path.open("r+b") as file:
        file.seek(-100, os.SEEK_END)
        file.write(b"y")
    with reading(path) as requests:
        assert next(iter(requests)).id != long.id


def test_a_line_over_the_limit_without_a_name_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(batch_requests, "LINE_BYTES", 100)
    path = tmp_path / "requests.jsonl"
    path.write_text('{"body":{"prompt":"' + "x" * 100 + '"},"custom_id":"late"}\n')
    with pytest.raises(BatchFileError, match=r"line 1: .*'custom_id'"):
        ids_of(path)


def test_many_requests_take_the_memory_of_one(tmp_path):
    path = tmp_path / "requests.jsonl"
    write_lines(path, (line(f"{n}", chat("x" * 500_000)) for n in range(40)))
    tracemalloc.start()
    try:
        with reading(path) as requests:
            requests.check()
            assert sum(1 for _ in requests) == 40
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: os.mkfifo(path), lambda path: None])
def test_requests_that_cannot_be_read_are_one_error(tmp_path, make):
    path = tmp_path / "requests"
    make(path)
    with pytest.raises(BatchFileError, match=r"cannot read .*requests: "):
        RequestFile(path)


# --- results --------------------------------------------------------------------------------------


def test_results_are_private_and_appended(source, target):
    ids = ids_of(source)
    results = ResultFile(target, ids, "them")
    results.write("chat-1", result(ids, "chat-1"), failed=False)
    results.close()
    again = ResultFile(target, ids, "them")
    assert again.done == {"chat-1"}
    again.write("chat-0", result(ids, "chat-0", 400), failed=True)
    again.close()
    assert target.read_bytes() == result(ids, "chat-1") + result(ids, "chat-0", 400)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    last = ResultFile(target, ids, "them")
    assert (last.done, last.failed) == ({"chat-0", "chat-1"}, 1)
    last.close()


def test_a_file_of_results_has_one_writer(source, target):
    results = ResultFile(target, ids_of(source), "them")
    with pytest.raises(BatchFileError, match="is being written by another process"):
        ResultFile(target, ids_of(source), "them")
    results.close()
    ResultFile(target, ids_of(source), "them").close()


@given(cut=st.integers(0, 400), zeros=st.integers(0, 5))
def test_wherever_it_was_cut_off_whole_results_are_kept_and_the_rest_is_gone(
    tmp_path_factory, cut, zeros
):
    folder = tmp_path_factory.mktemp("cut")
    ids = ids_of(write_lines(folder / "requests.jsonl", chats(3)))
    lines = [result(ids, custom_id) for custom_id in ids]
    data = b"".join(lines)[:cut]
    whole = [each for n, each in enumerate(lines) if len(b"".join(lines[: n + 1])) <= cut]
    target = folder / "results.jsonl"
    target.write_bytes(data + bytes(zeros))
    results = ResultFile(target, ids, "them")
    results.close()
    assert target.read_bytes() == b"".join(whole)
    assert results.done == {f"chat-{n}" for n in range(len(whole))}


@pytest.mark.parametrize(
    ("there", "says"),
    [
        (b"my notes\n", "line 1: it is not a result"),
        (b"my notes, without a last newline", "line 1: it is not a result"),
        (b"null\n", "line 1: it is not a result"),
        (b"[" * 100_000 + b"\n", "line 1: it is not a result"),
        (b'{"id":"x","custom_id":["y"],"response":{}}\n', "line 1: it is of a request"),
        (b'{"id":"x","custom_id":"y","response":{}}\n', "'y', which is not in them"),
        (b'{"id":"x","custom_id":"chat-0","response":{}}\n', "'chat-0' in them has changed since"),
        (b'RESULT{"id":"x","custom_id":"y","response":{}}\n', "line 2: it is of a request"),
        (b"RESULTRESULT", "line 2: it is the second of the request 'chat-0'"),
        (b"RESULTmore", "line 2: it is not a result"),
    ],
)
def test_what_is_no_result_of_these_requests_is_left_alone(source, target, there, says):
    ids = ids_of(source)
    data = there.replace(b"RESULT", result(ids, "chat-0"))
    target.write_bytes(data)
    with pytest.raises(BatchFileError, match=r"another file, or remove this one") as error:
        ResultFile(target, ids, "them")
    assert says in str(error.value)
    assert target.read_bytes() == data


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: os.mkfifo(path)])
def test_results_that_cannot_be_written_are_one_error(source, target, make):
    make(target)
    with pytest.raises(BatchFileError, match=r"cannot use .*results"):
        ResultFile(target, ids_of(source), "them")


def test_failed_results_can_be_removed(source, target):
    ids = ids_of(source)
    kept = result(ids, "chat-0") + result(ids, "chat-2")
    target.write_bytes(result(ids, "chat-0") + result(ids, "chat-1", 400) + result(ids, "chat-2"))
    target.chmod(0o640)
    results = ResultFile(target, ids, "them", retry_failed=True)
    assert (results.done, results.failed) == ({"chat-0", "chat-2"}, 0)
    with pytest.raises(BatchFileError, match="another process"):
        ResultFile(target, ids, "them")
    results.write("chat-1", result(ids, "chat-1"), failed=False)
    results.close()
    assert target.read_bytes() == kept + result(ids, "chat-1")
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_what_was_written_reaches_the_disk_in_time(source, target, monkeypatch):
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    monkeypatch.setattr(batch_results, "SYNC_S", 0.0)
    ids = ids_of(source)
    results = ResultFile(target, ids, "them")
    synced.clear()  # of the folder
    results.sync()
    assert len(synced) == 0
    results.write("chat-0", result(ids, "chat-0"), failed=False)
    results.sync()
    results.sync()
    assert len(synced) == 1
    results.write("chat-1", result(ids, "chat-1"), failed=False)
    results.close()
    assert len(synced) == 2
