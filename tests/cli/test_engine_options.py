"""Which engine runs a model, said on the command line."""

from __future__ import annotations

import json
import sys

import pytest
import typer.main

from maglio.cli.app import app, main
from maglio.cli.engine_options import EngineOptions
from maglio.cli.model_options import ModelOptions
from maglio.engine import registry
from maglio.errors import InvalidArgumentError, ModelFileError
from support.chat_model import write_chat_model
from support.drifting_engine import drifting

GROUP = typer.main.get_command(app)
LOADING = ["generate", "chat", "serve", "batch", "doctor", "probe"]
BENCHES = ["record", "tasks"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_chat_model(tmp_path_factory.mktemp("engines") / "m.gguf")


@pytest.fixture(autouse=True)
def _engines(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", "false")  # what the speed of a machine is has its own test
    monkeypatch.setattr(registry, "entry_points", lambda group: [drifting(0.02)])


def run(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["maglio", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code, capsys.readouterr()


def flags(command):
    return {flag for parameter in command.params for flag in parameter.opts}


def test_every_command_that_loads_a_model_has_the_options_of_engines():
    commands = [GROUP.commands[name] for name in LOADING]
    commands += [GROUP.commands["bench"].commands[name] for name in BENCHES]
    for command in commands:
        assert flags(command) >= {
            "--engine",
            "--engine-option",
            "--exact",
            "--threads",
            "--kv-cache",
        }


def test_an_engine_that_is_not_there_is_named_with_those_that_are(path, monkeypatch, capsys):
    status, said = run(
        monkeypatch, capsys, "generate", "-m", path, "-p", "x", "--engine", "wishful"
    )
    assert status == 1
    assert said.err.startswith("maglio: engine is 'wishful', must be auto, ")
    assert "transformers" in said.err


def test_options_that_an_engine_does_not_have_are_refused_as_they_were_spelled(
    path, monkeypatch, capsys
):
    options = ("--engine", "drifting", "--cache-weights", "--engine-option", "layers=3")
    status, said = run(monkeypatch, capsys, "generate", "-m", path, "-p", "x", *options)
    assert status == 1
    assert said.err == (
        "maglio: the engine 'drifting' does not have --engine-option layers, --cache-weights; it "
        "has none of its own\n"
    )
    options = ("--engine", "transformers", "-eo", "layers=3")
    status, said = run(monkeypatch, capsys, "generate", "-m", path, "-p", "x", *options)
    assert said.err == (
        "maglio: the engine 'transformers' does not have --engine-option layers; --engine-option "
        "can name device, dtype\n"
    )


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("dtype", "must be NAME=VALUE"),
        ("=3", "must be NAME=VALUE"),
        ("no-name=3", "must be NAME=VALUE"),
        ("n_ctx=3", "n_ctx has an option of its own"),
        ("cache=true", "cache has an option of its own"),
    ],
)
def test_what_is_no_option_of_an_engine_is_refused(path, word, problem):
    with pytest.raises(InvalidArgumentError, match=problem):
        EngineOptions(engine_option=[word]).open(path, n_ctx=64)
    with pytest.raises(InvalidArgumentError, match="given twice"):
        EngineOptions(engine_option=["a=1", "a=2"]).open(path, n_ctx=64)


def test_values_are_numbers_and_switches_where_they_are_written_so(monkeypatch, path):
    given = {}

    def open_all(path, /, *, n_ctx, threads, kv_cache, **options):
        given.update(options)
        raise ModelFileError("enough")

    class Point:
        name = "all"

        def load(self):
            return open_all

    monkeypatch.setattr(registry, "entry_points", lambda group: [Point()])
    words = ["layers=99", "mlock=true", "scale=0.5", "dtype=bfloat16", "list=[1]", "empty="]
    with pytest.raises(ModelFileError, match="enough"):
        EngineOptions(engine="all", engine_option=words).open(path, n_ctx=64)
    assert given == {
        "layers": 99,
        "mlock": True,
        "scale": 0.5,
        "dtype": "bfloat16",
        "list": "[1]",
        "empty": "",
    }


def test_a_model_that_must_be_exact_and_is_not_ends_the_command(path, monkeypatch, capsys):
    words = ("generate", "-m", path, "-p", "an ant", "-n", "4", "--engine")
    status, said = run(monkeypatch, capsys, *words, "drifting", "--exact", "require")
    assert status == 1
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "the engine 'drifting' is not exact here" in said.err
    status, _ = run(monkeypatch, capsys, *words, "native", "--exact", "require")
    assert status == 0


def test_the_details_say_what_was_found(path, monkeypatch, capsys):
    words = ("generate", "-m", path, "-p", "an ant", "-n", "8", "--stats", "--json", "--engine")
    status, said = run(monkeypatch, capsys, *words, "drifting", "--exact", "guard")
    assert status == 0
    assert "engine drifting, distribution (" in said.err
    assert "differed from those computed alone, by 0.0" in said.err
    document = json.loads(said.out)
    assert document["engine"] == {"name": "drifting", "exactness": "distribution"}
    assert document["stats"]["recomputed"] >= 0
    status, said = run(monkeypatch, capsys, *words, "auto")
    assert "engine native, bitwise\n" in said.err
    assert json.loads(said.out)["engine"] == {"name": "native", "exactness": "bitwise"}


def test_the_doctor_says_what_the_quick_check_found(path, monkeypatch, capsys):
    status, said = run(monkeypatch, capsys, "doctor", path, "--engine", "drifting", "-t", "1")
    assert status == 0
    assert "drifting, promises distribution" in said.out
    assert "To make rows more exact: stop drifting." in said.out
    assert "With --exact guard, close decisions are taken" in said.out
    monkeypatch.setattr(registry, "entry_points", lambda group: [drifting(0.0)])
    status, said = run(
        monkeypatch, capsys, "doctor", path, "--engine", "drifting", "-t", "1", "--json"
    )
    engine = json.loads(said.out)["engine"]
    assert (engine["promised"], engine["exactness"]) == ("distribution", "bitwise")
    assert not engine["broken"]


def test_the_whole_context_is_the_engines_business(path):
    assert ModelOptions(model=path, n_ctx=0, threads=1).load().engine.n_ctx == 4096
    assert (
        ModelOptions(model=path, n_ctx=0, threads=1, engine="drifting").load().engine.n_ctx == 4096
    )


def test_a_probe_can_be_made_of_any_engine(path, monkeypatch, capsys):
    words = ("probe", path, "-t", "-1", "-c", "16", "-r", "2", "--json", "--engine", "drifting")
    status, said = run(monkeypatch, capsys, *words)
    assert status == 0
    assert json.loads(said.out)["engine"] == "drifting"
    assert not json.loads(said.out)["bitwise"]
