"""``maglio bench field`` on a tiny model: real contestants in processes of their own."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from bench.field_samples import run as run_of
from bench.samples import JSON_ANSWER
from maglio.bench.field.contestants import ENTRANTS, find
from maglio.bench.field.results import read_results
from maglio.cli.app import app
from maglio.cli.bench_field import check_equal
from maglio.errors import DataFileError, InvalidArgumentError, MaglioError, ModelFileError
from support.chat_model import write_chat_model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_chat_model(tmp_path_factory.mktemp("model") / "tiny.gguf")


@pytest.fixture(autouse=True)
def _no_measuring(monkeypatch):
    monkeypatch.setattr("maglio.doctor.machine_facts._rates", lambda *_: (12.5e9, None, ""))


def run(*arguments: object):
    found = CliRunner().invoke(app, ["bench", "field", *map(str, arguments)])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


def test_maglio_answers_every_task_with_the_tokens_of_plain_decoding(model, tmp_path):
    (tmp_path / "arctic_json_mode_WikiQuestions.json").write_text(json.dumps([JSON_ANSWER]))
    output = tmp_path / "results.jsonl"
    options = ["-m", model, "-o", output, "-n", "12", "-t", "1", "-r", "1"]
    options += ["--contestants", "maglio,maglio-plain", "--data", tmp_path]
    options += ["--tasks", "repetition,reference,json schema"]
    shown = run(*options)
    found = read_results(output)
    assert [task.name for task in found.header.tasks] == ["repetition", "reference", "json schema"]
    assert [one.name for one in found.header.contestants] == ["maglio-plain", "maglio"]
    assert found.header.contestants[0].version.startswith("maglio ")
    assert (found.header.threads, found.header.max_tokens, found.header.rounds) == (1, 12, 1)
    assert len(found.header.model.digest) == 64
    assert found.header.machine.memory_gb_per_s == 12.5
    assert len(found.runs) == 3 * 2 * 2
    for line in found.runs:
        assert line.error is None
        assert line.equal is (True if line.contestant == "maglio" else None)
        assert 1 <= line.tokens <= 12
        assert line.first_token_s > 0.0
        assert line.decode_s > 0.0
        if line.contestant == "maglio-plain":
            assert (line.steps, line.drafted, line.accepted) == (line.decoded, 0, 0)
        else:
            assert line.steps + line.accepted >= line.decoded
    assert set(found.memory) == {"maglio-plain", "maglio"}
    assert "repetition, greedy, round 1 of 1: maglio" in shown.stderr
    assert "json schema, T=0.7" in shown.stderr
    before = output.read_bytes()
    assert "all 12 runs are in" in run(*options).stderr
    assert output.read_bytes() == before
    with pytest.raises(DataFileError, match="other max_tokens"):
        run(*options, "-n", "13")


def test_other_output_of_our_own_engine_is_an_error():
    entries = find(ENTRANTS)
    check_equal(entries, [run_of(), run_of(contestant="maglio-transformers", equal=False)])
    with pytest.raises(MaglioError, match=r"in 1 runs, first in repetition, prompt 1, at temp"):
        check_equal(entries, [run_of(), run_of(equal=False)])


def test_contestants_and_tasks_can_be_listed(tmp_path):
    shown = run("--list", "--contestants", "maglio*,llama.cpp-ngram-mod", "--tasks", "free*")
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("maglio-plain ")
    assert any(line.startswith("llama.cpp-ngram-mod ") for line in lines)
    assert lines[-1] == f"{'free form':28} built in, 1 prompts"


def test_names_that_nobody_has_are_errors():
    with pytest.raises(InvalidArgumentError, match="no contestant 'mistral'; there are maglio-pl"):
        run("--list", "--contestants", "maglio,mistral")
    with pytest.raises(InvalidArgumentError, match="no task 'edits'; there are repetition"):
        run("--list", "--tasks", "edits")


def test_a_prompt_that_does_not_fit_is_left_out_and_said_so(model, tmp_path):
    options = ["-m", model, "-o", tmp_path / "f", "--contestants", "maglio", "--tasks", "rep*"]
    with pytest.raises(InvalidArgumentError, match="no prompt fits"):
        run(*options, "-c", "64", "-n", "10")
    assert not (tmp_path / "f").exists()


def test_a_folder_is_no_model_for_all_contestants(tmp_path):
    with pytest.raises(ModelFileError, match="give a GGUF file"):
        run("-m", tmp_path, "--contestants", "maglio", "-o", tmp_path / "f")
