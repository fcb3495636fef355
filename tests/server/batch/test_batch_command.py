"""`maglio batch`: streams, statuses, and how far it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

import maglio
from maglio.cli.app import app
from maglio.cli.batch_progress import ProgressLines
from maglio.errors import BatchFileError
from support.batch_lines import (
    answers_of,
    chats,
    line,
    write_lines,
)


def command(*arguments: str | Path) -> int:
    """Run it here; the exit status."""
    status = app(["batch", *map(str, arguments)], standalone_mode=False)
    return status or 0


def test_the_command_reads_and_writes_streams_too(model_file, source, tmp_path, uninterrupted):
    run = subprocess.run(
        [sys.executable, "-m", "maglio", "batch", "-", "-o", "-", "-m", str(model_file)],
        input=source.read_bytes(),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    (tmp_path / "results.jsonl").write_bytes(run.stdout)
    assert answers_of(tmp_path / "results.jsonl") == uninterrupted
    (said,) = run.stderr.decode().splitlines()
    assert said.startswith("12 requests, 0 failed | prompts ")


def test_failed_requests_are_told_by_the_exit_status(model_file, tmp_path, target, capsys):
    source = write_lines(tmp_path / "requests.jsonl", [*chats(1), line("bad", {"messages": 1})])
    assert command(source, "-o", target, "-m", model_file) == 1
    assert capsys.readouterr().err.startswith("2 requests, 1 failed | ")
    # There is nothing left to do, so no model is loaded.
    assert command(source, "-o", target, "-m", "no such model") == 1
    assert capsys.readouterr().err == "2 requests, 1 failed, 2 done earlier\n"
    write_lines(tmp_path / "requests.jsonl", chats(1))
    with pytest.raises(BatchFileError, match="request 'bad', which is not in"):
        command(source, "-o", target, "-m", "no such model")


def test_the_input_is_checked_before_a_model_is_loaded(source, target):
    source.write_text("{}\n")
    with pytest.raises(BatchFileError, match=r"requests.jsonl, line 1: .*'custom_id'"):
        command(source, "-o", target, "-m", "no such model")
    assert not target.exists()


def test_a_batch_that_goes_on_says_so(model_file, source, target, model, capsys):
    maglio.run_batch(model, source, target)
    target.write_bytes(b"".join(target.read_bytes().splitlines(keepends=True)[:5]))
    assert command(source, "-o", target, "-m", model_file, "--retry-failed", "-cram", "0") == 0
    first, last = capsys.readouterr().err.splitlines()
    assert first == "maglio: 5 of 12 requests have a result already"
    assert last.startswith("12 requests, 0 failed, 5 done earlier | ")


@pytest.mark.parametrize(
    ("progress", "says"),
    [
        ({}, "2 of 10 requests | 0.0 tok/s"),
        (
            {"failed": 1, "tokens": 30, "seconds": 20.0, "drafted": 4, "accepted": 1},
            "2 of 10 requests | 1 failed | 1.5 tok/s | accepted 1/4 (25%) | 1:20 left",
        ),
        (
            {"tokens": 30, "seconds": 3600.0, "running": 4},
            "2 of 10 requests | 0.0 tok/s | 1:30:00 left",
        ),
    ],
)
def test_without_a_terminal_a_line_comes_now_and_then(progress, says, capsys):
    now = [0.0]
    show = ProgressLines(clock=lambda: now[0])
    how = maglio.BatchProgress(
        requests=10, done=2, earlier=0 if progress else 2, **{"failed": 0, **progress}
    )
    show(how)
    assert capsys.readouterr().err == ""
    now[0] = 10.0
    show(how)
    show(how)
    assert capsys.readouterr().err == says + "\n"


def test_a_terminal_shows_a_bar(model_file, source, target):
    run = pexpect.spawn(
        sys.executable,
        ["-m", "maglio", "batch", str(source), "-o", str(target), "-m", str(model_file)],
        encoding="utf-8",
        timeout=60,
        dimensions=(24, 120),
    )
    run.expect("12/12.* tok/s")
    run.expect("12 requests, 0 failed")
    run.expect(pexpect.EOF)
    run.close()
    assert run.exitstatus == 0
