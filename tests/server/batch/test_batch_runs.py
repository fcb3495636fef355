"""Batches: each answer is the server's, and none is lost or given twice, whatever happens."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maglio
from maglio.errors import BatchFileError
from maglio.server import limits
from maglio.server.batch import job
from maglio.server.settings import Settings
from maglio.server.streams.service import Service
from support.batch_lines import (
    CHAT,
    COMPLETIONS,
    RESPONSES,
    answers_of,
    chat,
    chats,
    lasting,
    line,
    results_of,
    write_lines,
)
from support.batch_process import run_until

SCHEMA = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"]}
BODIES = [
    (CHAT, chat("hello", seed=1, logprobs=True, top_logprobs=2, n=2)),
    (CHAT, chat("hello", seed=2, temperature=0, stop=["e"])),
    (
        CHAT,
        chat(
            "hello",
            temperature=0,
            seed=7,
            prediction={"type": "content", "content": "hello"},
        ),
    ),
    (
        CHAT,
        chat(
            "hello",
            seed=3,
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "a", "schema": SCHEMA},
            },
        ),
    ),
    (COMPLETIONS, {"prompt": ["one", "two"], "seed": 4, "echo": True}),
    (COMPLETIONS, {"prompt": [1, 2, 3], "seed": 5, "logprobs": 1}),
    (COMPLETIONS, {"prompt": "x", "seed": 6, "logit_bias": {"5": 1.5e-5}, "max_tokens": 1}),
    (RESPONSES, {"input": "hello", "seed": 8, "max_output_tokens": 16}),
    # What the server refuses:
    (CHAT, {"messages": []}),
    (CHAT, chat("hello", temprature=0)),
    (CHAT, chat("hello", n=1000)),
    (CHAT, chat("long " * 1000)),
    (CHAT, chat("hello", response_format={"type": "json_schema", "json_schema": {"name": "a"}})),
    (COMPLETIONS, {"prompt": "x", "suffix": "y"}),
    (COMPLETIONS, []),
    (COMPLETIONS, "x"),
    (RESPONSES, {"input": 7}),
]


# --- answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallel", [1, 5])
def test_every_answer_is_the_servers(tiny_chat, client, tmp_path, target, parallel):
    bodies = [
        (url, body | {"model": "gpt-4"} if isinstance(body, dict) else body) for url, body in BODIES
    ]
    lines = [line(f"{n}", body, url) for n, (url, body) in enumerate(bodies)]
    source = write_lines(tmp_path / "requests.jsonl", lines)
    end = maglio.run_batch(tiny_chat, source, target, parallel=parallel)
    results = results_of(target)
    for n, (url, body) in enumerate(bodies):
        expected = client.post(url, json=body)
        response = results[f"{n}"]["response"]
        assert response["status_code"] == expected.status_code, expected.text
        assert lasting(response["body"]) == lasting(expected.json())
        assert response["request_id"].startswith("req_")
        assert results[f"{n}"]["error"] is None
    failed = [n for n in range(len(bodies)) if results[f"{n}"]["response"]["status_code"] != 200]
    assert failed == list(range(8, 17))
    assert (end.requests, end.done, end.failed, end.earlier) == (17, 17, 9, 0)


def test_what_requests_leave_out_is_as_the_caller_says(model, tmp_path, target):
    source = write_lines(tmp_path / "requests.jsonl", [line("a", chat("x")), line("b", chat("x"))])
    sampling = maglio.SamplingParams(temperature=1.5)
    maglio.run_batch(model, source, target, seed=7, sampling=sampling, max_tokens=5)
    one, other = (result["response"]["body"] for result in results_of(target).values())
    assert lasting(one) == lasting(other)
    assert one["usage"]["completion_tokens"] <= 5
    asked = line("a", chat("x", seed=7, temperature=1.5) | {"max_tokens": 5})
    stream = io.BytesIO()
    maglio.run_batch(model, io.BytesIO(json.dumps(asked).encode()), stream)
    alone = json.loads(stream.getvalue())["response"]["body"]
    assert alone["choices"] == one["choices"]


def test_the_model_answers_to_every_name(model, tmp_path, target):
    source = write_lines(tmp_path / "requests.jsonl", [line("a", chat("x", model="gpt-4o-mini"))])
    assert maglio.run_batch(model, source, target).failed == 0
    assert results_of(target)["a"]["response"]["body"]["model"] == "gpt-4o-mini"


def test_a_shared_beginning_is_computed_once(model, tmp_path, target):
    beginning = "a long beginning that all of them share, " * 4
    lines = [line(f"{n}", chat(beginning + f"{n}", seed=n)) for n in range(6)]
    source = write_lines(tmp_path / "requests.jsonl", lines)
    end = maglio.run_batch(model, source, target)
    assert end.cached_tokens > 0.7 * 5 / 6 * end.prompt_tokens
    usages = [result["response"]["body"]["usage"] for result in results_of(target).values()]
    assert end.prompt_tokens == sum(usage["prompt_tokens"] for usage in usages)
    assert end.tokens == sum(usage["completion_tokens"] for usage in usages)
    assert end.cached_tokens == sum(usage["prompt_cache_hit_tokens"] for usage in usages)
    alone = tmp_path / "alone.jsonl"
    assert maglio.run_batch(model, source, alone, prefix_bytes=0).cached_tokens == 0
    assert answers_of(alone) == answers_of(target)


def test_a_stream_is_refused(model, tmp_path, target):
    source = write_lines(tmp_path / "requests.jsonl", [line("a", chat("x", stream=True))])
    assert maglio.run_batch(model, source, target).failed == 1
    response = results_of(target)["a"]["response"]
    assert response["status_code"] == 400
    assert response["body"]["error"]["param"] == "stream"


def test_a_line_over_the_limit_is_a_result_that_says_so(model, tmp_path, target):
    long = line("long", chat("x" * limits.BODY_BYTES))
    source = write_lines(tmp_path / "requests.jsonl", [long, *chats(1)])
    end = maglio.run_batch(model, source, target)
    assert (end.done, end.failed) == (2, 1)
    response = results_of(target)["long"]["response"]
    assert (response["status_code"], response["body"]["error"]["code"]) == (
        413,
        "request_too_large",
    )


def test_progress_is_told_until_the_end(model, source, target):
    told: list[maglio.BatchProgress] = []
    end = maglio.run_batch(model, source, target, on_progress=told.append)
    assert told[-1].done == end.done == 12
    assert [progress.done for progress in told] == sorted(progress.done for progress in told)
    assert end.tokens > 0
    assert end.tokens_per_s == end.tokens / end.seconds
    assert (end.left, end.remaining_s) == (0, 0)


# --- going on -------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(share=st.floats(0, 1), parallel=st.integers(1, 8))
def test_wherever_the_results_were_cut_off_the_same_call_completes_them(
    model, uninterrupted, tmp_path_factory, share, parallel
):
    folder = tmp_path_factory.mktemp("cut")
    source, target = write_lines(folder / "requests.jsonl", chats(12)), folder / "results.jsonl"
    maglio.run_batch(model, source, target)
    whole = target.read_bytes()
    cut = whole[: int(share * len(whole))]
    target.write_bytes(cut)
    end = maglio.run_batch(model, source, target, parallel=parallel)
    assert end.earlier == cut.count(b"\n")
    kept = cut[: cut.rfind(b"\n") + 1]
    assert target.read_bytes().startswith(kept)
    assert answers_of(target) == uninterrupted


def test_a_killed_batch_goes_on_without_losing_or_repeating_a_line(
    model, model_file, source, target, uninterrupted
):
    for time in (1, 2):
        killed = run_until(
            signal.SIGKILL, 4, "batch", source, "-o", target, "-m", model_file, "-np", "2"
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert target.read_bytes().count(b"\n") == 4 * time
        assert not target.read_bytes().endswith(b"\n")
    end = maglio.run_batch(model, source, target)
    assert (end.earlier, end.done) == (8, 12)
    assert answers_of(target) == uninterrupted


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_batch_says_how_to_go_on(
    model, model_file, source, target, uninterrupted, number, status
):
    run = run_until(number, 4, "batch", source, "-o", target, "-m", model_file, "-np", "2")
    assert run.returncode == status, run.stderr
    done = len(results_of(target))
    assert 4 <= done < 12
    assert run.stderr == (
        f"maglio: {done} of 12 requests have a result; the same command goes on with the others\n"
    )
    assert maglio.run_batch(model, source, target).earlier == done
    assert answers_of(target) == uninterrupted


def test_a_batch_that_is_done_runs_nothing(model, source, target, monkeypatch):
    maglio.run_batch(model, source, target)
    before = target.read_bytes()
    monkeypatch.setattr(job.Batch, "run", None)
    end = maglio.run_batch(model, source, target)
    assert (end.done, end.earlier, end.tokens) == (12, 12, 0)
    assert target.read_bytes() == before


def test_failed_requests_run_again_when_asked(model, tmp_path, target):
    source = write_lines(tmp_path / "requests.jsonl", [line("long", chat("x" * 600)), *chats(2)])
    assert maglio.run_batch(model, source, target).failed == 1
    assert maglio.run_batch(model, source, target).failed == 1
    larger = maglio.load(model.path, n_ctx=1024, threads=1)
    end = maglio.run_batch(larger, source, target, retry_failed=True)
    assert (end.earlier, end.done, end.failed) == (2, 3, 0)


def test_results_of_another_model_are_warned_of(model, source, target):
    maglio.run_batch(model, source, target)
    kept = target.read_bytes().splitlines(keepends=True)[:3]
    target.write_bytes(b"".join(kept))
    other = maglio.load(model.path, n_ctx=512, threads=1, kv_cache="q8_0")
    with pytest.warns(UserWarning, match="the results so far are of another model"):
        maglio.run_batch(other, source, target)


def test_a_batch_that_cannot_run_changes_nothing(model, tmp_path, target):
    source = write_lines(tmp_path / "requests.jsonl", [*chats(2), *chats(1)])
    with pytest.raises(BatchFileError, match="custom_id 'chat-0' is an earlier line's too"):
        maglio.run_batch(model, source, target)
    assert not target.exists()


def test_results_do_not_go_where_requests_are(model, source, tmp_path):
    before = source.read_bytes()
    (tmp_path / "link").symlink_to(source)
    with pytest.raises(BatchFileError, match="is the file of requests"):
        maglio.run_batch(model, source, tmp_path / "link")
    assert source.read_bytes() == before


def test_a_package_that_is_missing_is_named(model, source, target, monkeypatch):
    monkeypatch.delitem(sys.modules, "maglio.server.app")
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    with pytest.raises(maglio.MaglioError, match=r'pip install "maglio\[server\]"') as error:
        maglio.run_batch(model, source, target)
    assert str(error.value).startswith("maglio.run_batch needs the package starlette")
    assert not target.exists()


def test_requests_that_change_under_way_are_one_error(model, source, target):
    with job.Batch(source, target) as batch:
        write_lines(source, [line(f"chat-{n}", chat("another")) for n in range(12)])
        service = Service(model)
        try:
            with pytest.raises(BatchFileError, match=r"was changed while it was read \(line 1\)"):
                batch.run(service, Settings(names=("tiny",)))
        finally:
            service.close()
    assert results_of(target) == {}


# --- trouble --------------------------------------------------------------------------------------


@pytest.fixture
def short_of_memory(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An application that can answer one request at a time, and the request "never" never."""
    active = 0
    asked: list[str] = []

    async def app(scope, receive, send):
        nonlocal active
        active += 1
        content = json.loads((await receive())["body"])["messages"][0]["content"]
        asked.append(content)
        await anyio.lowlevel.checkpoint()
        status = 200 if active == 1 and content != "never" else 503
        active -= 1
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(content).encode()})

    monkeypatch.setattr(job, "create_app", lambda *_: app)
    return asked


def test_what_found_no_memory_beside_others_runs_alone_in_the_end(
    model, tmp_path, target, short_of_memory
):
    lines = [*chats(6), line("never", chat("never"))]
    end = maglio.run_batch(model, write_lines(tmp_path / "requests.jsonl", lines), target)
    assert (end.done, end.failed) == (7, 1)
    assert len(short_of_memory) > 7
    for custom_id, result in results_of(target).items():
        expected = 503 if custom_id == "never" else 200
        assert result["response"]["status_code"] == expected
        text = custom_id.replace("chat-", "number ")
        assert result["response"]["body"] == text


def test_a_full_disk_ends_the_batch_and_room_lets_it_go_on(
    model, source, target, uninterrupted, monkeypatch
):
    write, left = os.write, [3]

    def full(file, data):
        if threading.current_thread() is threading.main_thread():
            return write(file, data)
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        return write(file, data if left[0] else data[:50])

    with monkeypatch.context() as patch:
        patch.setattr("maglio.server.batch.results.os.write", full)
        with pytest.raises(BatchFileError, match=r"cannot write .*: No space left .*; make room"):
            maglio.run_batch(model, source, target)
    assert maglio.run_batch(model, source, target).earlier == 2
    assert answers_of(target) == uninterrupted


def test_what_the_caller_raises_ends_the_batch(model, source, target):
    def stop(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        maglio.run_batch(model, source, target, on_progress=stop)
    assert maglio.run_batch(model, source, target).done == 12
