"""The runs of a field benchmark: in turns, whatever happens, and gone on with after a kill."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from bench.field_samples import HEADER
from maglio.bench.field.contestants import Entrant, Entry
from maglio.bench.field.line import Contestant, FieldTask
from maglio.bench.field.prompts import FieldPrompt, Item, TaskPrompts
from maglio.bench.field.results import read_results
from maglio.bench.field.results_file import ResultsFile
from maglio.bench.field.runner import Field, FieldRunner, digest_of, heats, in_turn
from support.scripted_contestant import ANSWER, CRASH, FAULT, HANG, MAX_TOKENS

TESTS = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _can_be_imported(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TESTS))


def entry(name: str, engine: str, method: str, **settings) -> Entry:
    remembers = settings.pop("remembers", False)
    entrant = Entrant(
        name=name,
        engine=engine,
        method=method,
        module="support.scripted_contestant",
        packages=(),
        install="",
        settings=settings,
        remembers=remembers,
    )
    return Entry(entrant, sys.executable, Contestant(name, engine, method, settings, "1", None))


def task(name: str, *prompts: int) -> TaskPrompts:
    made = [FieldPrompt(Item(name=str(n)), (what, 7, 8, 9)) for n, what in enumerate(prompts)]
    return TaskPrompts(FieldTask(name, "built in", len(made), "Nothing."), tuple(made))


def field(entries, tasks, *, rounds=1, temperatures=(0.0,), limit_s=60.0) -> Field:
    return Field(
        model="m",
        entries=entries,
        tasks=tasks,
        temperatures=temperatures,
        rounds=rounds,
        max_tokens=MAX_TOKENS,
        n_ctx=64,
        threads=1,
        ends=(),
        limit_s=limit_s,
    )


def run_all(given: Field, path: Path):
    """All runs that were made, and the results that are in the file then."""
    header = replace(
        HEADER,
        contestants=tuple(entry.contestant for entry in given.entries),
        tasks=tuple(task.task for task in given.tasks),
    )
    with ResultsFile(path, header) as file:
        runner = FieldRunner(given, file, model_bytes=0)
        missing = runner.missing()
        made = list(runner.runs())
        assert len(made) == missing
        assert runner.missing() == 0
    return made, read_results(path)


PLAIN = entry("plain", "a", "plain")
FAST = entry("fast", "a", "fast")


def test_outputs_are_compared_with_plain_decoding_of_the_same_engine(tmp_path):
    entries = [
        PLAIN,
        FAST,
        entry("wrong", "a", "wrong", wrong=1),
        entry("other", "b", "plain", wrong=1),
        entry("lonely", "c", "fast"),
    ]
    _, found = run_all(field(entries, [task("t", ANSWER)]), tmp_path / "f")
    equal = {run.contestant: run.equal for run in found.runs}
    assert equal == {"plain": None, "fast": True, "wrong": False, "other": None, "lonely": None}
    run = next(run for run in found.runs if run.contestant == "fast")
    assert (run.tokens, run.decoded, run.digest) == (2, 1, digest_of([8, 9]))
    assert (run.first_token_s, run.decode_s) == (0.25, 0.5)
    assert (run.steps, run.drafted, run.accepted, run.error) == (1, 2, 2, None)
    assert set(found.memory) == set(equal)
    assert min(found.memory.values()) > 1 << 20


def test_what_hangs_or_crashes_is_reported_and_the_run_goes_on(tmp_path):
    given = field([PLAIN], [task("t", HANG, ANSWER, CRASH, FAULT, ANSWER)], limit_s=3.0)
    made, found = run_all(given, tmp_path / "f")
    errors = [run.error for run in found.runs]
    assert "more than 3 seconds" in errors[0]
    assert "status 3: it is all over" in errors[2]
    assert "ValueError: a fault of mine" in errors[3]
    assert errors[1] is errors[4] is None
    assert all(run.tokens == 0 and run.digest == "" for run in made if run.error)


def test_what_cannot_be_opened_is_tried_once_and_reported_for_each_prompt(tmp_path):
    starts = tmp_path / "starts"
    broken = entry("broken", "b", "plain", opens=False)
    crashing = entry("fine", "c", "plain", starts=str(starts))
    _, found = run_all(field([broken, crashing], [task("t", ANSWER, ANSWER)]), tmp_path / "f")
    errors = [run.error for run in found.runs if run.contestant == "broken"]
    assert errors == ["could not be opened: OSError: no such weights"] * 2
    assert starts.read_text() == "start\n"


def test_those_that_remember_begin_anew_for_each_task_temperature_and_round(tmp_path):
    counts = {}
    for remembers in (False, True):
        starts = tmp_path / f"starts {remembers}"
        one = entry("x", "a", "plain", starts=str(starts), remembers=remembers)
        tasks = [task("t", ANSWER, ANSWER), task("u", ANSWER)]
        given = field([one], tasks, temperatures=(0.0, 0.7))
        run_all(given, tmp_path / f"f {remembers}")
        counts[remembers] = len(starts.read_text().split())
    assert counts == {False: 1, True: 4}


def test_finished_runs_are_not_made_again(tmp_path):
    path, starts = tmp_path / "f", tmp_path / "starts"
    given = field([entry("x", "a", "plain", starts=str(starts))], [task("t", ANSWER, CRASH)])
    assert len(run_all(given, path)[0]) == 2
    before = starts.read_text()
    assert run_all(given, path)[0] == []
    assert starts.read_text() == before


def test_leaving_in_the_middle_keeps_what_is_finished_and_ends_the_processes(tmp_path):
    path = tmp_path / "f"
    given = field([PLAIN, FAST], [task("t", ANSWER, ANSWER)])
    header = replace(
        HEADER,
        contestants=(PLAIN.contestant, FAST.contestant),
        tasks=(given.tasks[0].task,),
    )
    with ResultsFile(path, header) as file:
        runner = FieldRunner(given, file, model_bytes=0)
        with closing(runner.runs()) as runs:
            next(runs)
            next(runs)
    found = read_results(path)
    assert [run.contestant for run in found.runs] == ["plain", "fast"]
    assert set(found.memory) == {"plain", "fast"}
    assert len(run_all(given, path)[0]) == 2


KILLED = """
import sys
from pathlib import Path
from bench.test_field_runner import ANSWER, FAST, HANG, PLAIN, entry, field, run_all, task
hanging = entry("hanging", "b", "plain", reached=sys.argv[2])
run_all(field([PLAIN, FAST, hanging], [task("t", ANSWER, HANG)]), Path(sys.argv[1]))
"""


def test_a_killed_run_goes_on_where_it_was_and_leaves_no_process(tmp_path):
    path, pipe = tmp_path / "f", tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [sys.executable, "-c", KILLED, str(path), str(pipe)]
    with subprocess.Popen(command) as process, pipe.open("rb") as reached:
        assert reached.read(1) == b"!"
        process.kill()
        process.wait()
        assert reached.read() == b""  # whoever had it open is gone too
    with path.open("ab") as file:
        file.write(b'{"kind": "run", "task": "t"')
    before = read_results(path).runs
    assert len(before) == 3
    hanging = entry("hanging", "b", "plain", reached=str(pipe))
    given = field([PLAIN, FAST, hanging], [task("t", ANSWER, ANSWER)])
    made, found = run_all(given, path)
    assert len(made) == 3
    assert found.runs[:3] == before
    assert len({run.cell for run in found.runs}) == 6


def test_turns_begin_with_plain_decoding_and_change_otherwise():
    entries = [PLAIN, FAST, entry("other", "b", "plain"), entry("swift", "b", "x")]
    orders = [[one.name for one in in_turn(entries, turn)] for turn in range(3)]
    assert orders == [
        ["plain", "other", "fast", "swift"],
        ["other", "plain", "swift", "fast"],
        ["plain", "other", "fast", "swift"],
    ]
    assert list(in_turn([FAST], 5)) == [FAST]


def test_heats_are_as_large_as_memory_allows():
    entries = [entry(name, name, "plain") for name in "abcde"]
    gb = 1 << 30
    sizes = [len(heat) for heat in heats(entries, gb, 8 * gb)]  # 2.5 GB each, of 6.4
    assert sizes == [2, 2, 1]
    assert [len(heat) for heat in heats(entries, gb, gb)] == [1] * 5
    assert len(heats(entries, gb, None)) == 1
    assert heats([], gb, gb) == []


def test_heats_take_turns_within_a_task(tmp_path, monkeypatch):
    monkeypatch.setattr("maglio.bench.field.runner.available_memory", lambda: 1)
    _, found = run_all(field([PLAIN, FAST], [task("t", ANSWER, ANSWER)]), tmp_path / "f")
    assert [run.contestant for run in found.runs] == ["plain", "plain", "fast", "fast"]
    assert [run.equal for run in found.runs] == [None, None, True, True]
