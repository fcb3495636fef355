"""The command measures, shows, keeps and forgets; results on stdout, the rest on stderr."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import maglio
from maglio.cli.app import app
from maglio.economics import probe
from maglio.economics.profile import ProfileStore
from maglio.errors import MaglioError

FAST = ["-c", "8", "-c", "16", "-r", "2", "-t", "1"]


@pytest.fixture
def model(tiny, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return str(tiny.path("qwen2", "Q8_0"))


def run(*arguments: str):
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def stored(model: str, threads: int = 1):
    return ProfileStore().load(maglio.load(model, threads=threads).profile_key)


def test_probe_prints_the_table_and_keeps_the_profile(model):
    result = run("probe", model, *FAST)
    assert "all 236 rows of verify steps were bitwise those of plain steps" in result.stdout
    assert [line.split("│")[1].strip() for line in result.stdout.splitlines() if "│" in line] == [
        str(draft) for draft in probe.DRAFTS
    ]
    assert "█" in result.stdout
    assert "profile" not in result.stdout
    assert str(ProfileStore().path(maglio.load(model, threads=1).profile_key)) in (
        result.stderr.replace("\n", "")
    )
    assert [at.context for at in stored(model).contexts] == [8, 16]


def test_json_is_one_document_with_break_even_points(model):
    document = json.loads(run("probe", "-m", model, *FAST, "--json").stdout)
    assert document["bitwise"] is True
    assert document["threads"] == 1
    assert [entry["draft"] for entry in document["costs"]] == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]
    for entry in document["costs"]:
        k, cost = entry["draft"], entry["cost"]
        assert entry["strict_break_even"] == (cost - 1) / k
        assert entry["conservative_break_even"] == cost / k


def test_show_measures_nothing_and_clear_forgets(model, monkeypatch):
    run("probe", model, *FAST)
    monkeypatch.setattr("maglio.cli.probe.measure", None)
    shown = run("probe", model, "-t", "1", "-c", "8", "--show", "--json")
    assert [at["context"] for at in json.loads(shown.stdout)["contexts"]] == [8, 16]
    assert "removed" in run("probe", model, "-t", "1", "-c", "8", "--clear").stderr
    assert stored(model) is None
    assert "no profile" in run("probe", model, "-t", "1", "-c", "8", "--clear").stderr
    with pytest.raises(MaglioError, match="no profile of this model"):
        run("probe", model, "-t", "1", "-c", "8", "--show")


def test_rows_that_break_the_promise_are_an_error_and_not_kept(model, monkeypatch):
    def broken(*args, **kwargs):
        costs = probe.measure(*args, **kwargs)
        return replace(costs, rows_equal=costs.rows_equal - 1)

    monkeypatch.setattr("maglio.cli.probe.measure", broken)
    with pytest.raises(MaglioError, match=r"promises rows .* not kept"):
        run("probe", model, *FAST)
    assert stored(model) is None


def test_generations_go_by_the_stored_profile(model):
    built_in = maglio.load(model, threads=1).cost
    run("probe", model, *FAST)
    measured = maglio.load(model, threads=1).cost
    assert measured == stored(model).curve()
    assert measured != built_in
    assert maglio.load(model, threads=2).cost == built_in  # another key


def test_the_old_name_works_and_is_not_advertised(model):
    assert run("spec-bench", model, *FAST, "--json").exit_code == 0
    help_text = run("--help").stdout
    assert "probe" in help_text
    assert "spec-bench" not in help_text


@pytest.mark.parametrize("arguments", [["m.gguf", "-m", "m.gguf"], ["m.gguf", "--show", "--clear"]])
def test_contradictions_are_refused(arguments):
    with pytest.raises(maglio.InvalidArgumentError, match="give"):
        run("probe", *arguments)
