"""A contestant's process: what it says, and what is said when it hangs, crashes or is absent."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from maglio.bench.field.contestants import ENTRANTS, Entrant, find, versions_in
from maglio.bench.field.process import ContestantError, ContestantProcess
from maglio.bench.field.worker.message import Request, Setup, counted
from support.scripted_contestant import ANSWER, CRASH, FAULT, HANG, KILLED, MAX_TOKENS, PRINT

MODULE = "support.scripted_contestant"
LONG_S = 60.0


@pytest.fixture(autouse=True)
def _can_be_imported(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))


def opened(python: str = sys.executable, **settings) -> ContestantProcess:
    setup = Setup(model="m", n_ctx=64, threads=1, method="plain", settings=settings)
    return ContestantProcess(python, MODULE, setup, limit_s=LONG_S)


def asking(what: int) -> Request:
    return Request(prompt=[what, 7, 8, 9], max_tokens=MAX_TOKENS, temperature=0.0, seed=0)


def test_a_contestant_answers_and_says_what_memory_it_took():
    with opened() as process:
        answer = process.ask(asking(ANSWER), limit_s=LONG_S)
        assert list(answer.tokens) == [8, 9]
        assert (answer.first_token_s, answer.decode_s, answer.steps) == (0.25, 0.5, None)
        assert process.peak_bytes > 1 << 20


def test_what_libraries_print_is_not_taken_for_an_answer():
    with opened() as process:
        assert list(process.ask(asking(PRINT), limit_s=LONG_S).tokens) == [8, 9]


def test_a_fault_is_told_and_the_next_prompt_is_answered():
    with opened() as process:
        with pytest.raises(ContestantError, match="ValueError: a fault of mine") as caught:
            process.ask(asking(FAULT), limit_s=LONG_S)
        assert not caught.value.ended
        assert list(process.ask(asking(ANSWER), limit_s=LONG_S).tokens) == [8, 9]


def test_a_crash_is_told_with_its_status_and_last_words():
    with opened() as process:
        with pytest.raises(ContestantError, match=r"status 3: it is all over") as caught:
            process.ask(asking(CRASH), limit_s=LONG_S)
        assert caught.value.ended
        with pytest.raises(ContestantError, match="status 3"):
            process.ask(asking(ANSWER), limit_s=LONG_S)


def test_a_signal_is_told_by_its_name():
    with opened() as process, pytest.raises(ContestantError, match="by SIGKILL"):
        process.ask(asking(KILLED), limit_s=LONG_S)


def test_a_contestant_that_hangs_is_ended_at_its_limit():
    with opened() as process:
        with pytest.raises(ContestantError, match=r"more than 0\.2 seconds") as caught:
            process.ask(asking(HANG), limit_s=0.2)
        assert caught.value.ended


def test_one_that_cannot_be_opened_says_why():
    with pytest.raises(ContestantError, match="OSError: no such weights"):
        opened(opens=False)
    with pytest.raises(ContestantError, match="cannot run /no/python: No such file"):
        opened("/no/python")


def test_an_interpreter_says_which_packages_it_has():
    found = versions_in(sys.executable, ["numpy", "no-such-package"])
    assert list(found) == ["numpy"]
    assert versions_in("/no/python", ["numpy"]) == {}


def test_absent_contestants_are_named_with_what_installs_them():
    lost = Entrant(
        name="lost",
        engine="e",
        method="plain",
        module=".none",
        packages=("numpy", "no-such-package"),
        install="pip install it",
    )
    (entry,) = find([lost])
    assert entry.python == ""
    assert entry.contestant.absent == "no-such-package: not installed; pip install it"


def test_peers_are_found_in_other_interpreters_and_maglio_only_here(tmp_path):
    for package in ("peer", "maglio"):
        folder = tmp_path / f"{package}-9.9.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: {package}\nVersion: 9.9\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    python.chmod(0o700)
    common = {"engine": "e", "method": "plain", "module": ".none", "install": "pip install it"}
    there = Entrant(name="there", packages=("peer", "numpy"), **common)
    mixed = Entrant(name="mixed", packages=("maglio", "peer"), **common)
    ours = Entrant(name="ours", packages=("maglio",), **common)
    found = {entry.name: entry for entry in find([there, mixed, ours], [str(python)])}
    assert found["there"].python == str(python)
    assert found["there"].contestant.version.startswith("peer 9.9, numpy ")
    assert found["mixed"].contestant.absent == "peer: not installed; pip install it"
    assert found["ours"].python == sys.executable
    assert "9.9" not in found["ours"].contestant.version


def test_every_engine_of_a_contestant_has_plain_decoding_and_it_comes_first():
    names = [entrant.name for entrant in ENTRANTS]
    assert len(set(names)) == len(names)
    seen = set()
    for entrant in ENTRANTS:
        assert (entrant.engine in seen) == (entrant.method != "plain")
        seen.add(entrant.engine)


@pytest.mark.parametrize(
    ("tokens", "widths", "expected"),
    [
        (5, [3, 1, 1, 1, 1], (4, 0, 0)),  # plain decoding after a prompt of 3
        (5, [3, 4, 1], (2, 3, 2)),
        (5, [5, 4], (1, 5, 3)),  # drafted beside the prompt too
        (1, [3], (0, 0, 0)),
        (0, [], (0, 0, 0)),
    ],
)
def test_counts_follow_from_the_widths_of_forwards(tokens, widths, expected):
    found = counted([0] * tokens, widths, 3)
    assert (found["steps"], found["drafted"], found["accepted"]) == expected
