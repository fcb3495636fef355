"""``maglio doctor`` on a tiny model, and on engines that break their promise."""

from __future__ import annotations

import json
import sys

import pytest

from maglio.cli.app import main
from maglio.engine import registry
from maglio.engine.registry import Opened
from maglio.native_model import open_native
from support.chat_model import write_chat_model


class Unsound:
    """The native engine, but for rows of wide forwards."""

    def __init__(self, engine):
        self._engine = engine

    def __getattr__(self, name):
        return getattr(self._engine, name)

    def forward(self, batch):
        rows = self._engine.forward(batch)
        return [r + 1 if len(s.tokens) > 20 else r for r, s in zip(rows, batch, strict=True)]


def open_unsound(path, /, *, n_ctx, threads, kv_cache):
    opened = open_native(path, n_ctx=n_ctx, threads=threads, kv_cache=kv_cache)
    return Opened(Unsound(opened.engine), *opened[1:])


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", "false")  # what the speed of a machine is has its own test
    monkeypatch.setattr(registry, "entry_points", lambda group: [_Point()])
    return write_chat_model(tmp_path / "m.gguf")


class _Point:
    name = "unsound"

    def load(self):
        return open_unsound


def run(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["maglio", "doctor", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code, capsys.readouterr()


def test_a_sound_engine_ends_with_0_and_says_so(model, monkeypatch, capsys):
    status, said = run(monkeypatch, capsys, model, "-t", "1")
    assert status == 0
    assert "rows were, to the bit, those of plain decoding, as the engine promises" in said.out
    assert "speed       not measured: false cannot compile" in said.out
    assert f"run maglio probe {model}" in said.out.replace("\n", " ")


def test_a_broken_promise_ends_with_1(model, monkeypatch, capsys):
    status, said = run(monkeypatch, capsys, "-m", model, "--engine", "unsound", "--json")
    assert status == 1
    document = json.loads(said.out)
    assert document["engine"]["broken"]
    assert not document["engine"]["bitwise"]
    assert next(t["name"] for t in document["engine"]["trials"] if not t["bitwise"]) == (
        "2 to 32 rows at a time"
    )
    assert "broke it" in document["verdict"]


def test_the_document_has_what_is_documented(model, monkeypatch, capsys):
    status, said = run(monkeypatch, capsys, model, "--json", "-t", "1")
    document = json.loads(said.out)
    assert status == 0
    assert set(document) == {"machine", "model", "engine", "verdict", "advice"}
    assert document["machine"]["isa"] in document["machine"]["isas"]
    assert document["model"]["architecture"] == "llama"
    assert document["engine"]["exactness"] == "bitwise"
    assert document["engine"]["threads"] == 1


def test_without_any_model_the_machine_is_shown(monkeypatch, capsys):
    from maglio.errors import ModelFileError

    def nothing():
        raise ModelFileError("no model was given and the default one is not installed")

    monkeypatch.setattr("maglio.sources.find.default_model_path", nothing)
    monkeypatch.setenv("CXX", "false")
    status, said = run(monkeypatch, capsys, "--json")
    assert status == 0
    assert json.loads(said.out)["engine"] is None
    assert "no model was given" in said.err


def test_a_model_that_is_missing_is_an_error(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("CXX", "false")
    status, said = run(monkeypatch, capsys, tmp_path / "none.gguf")
    assert status == 1
    assert "cannot read" in said.err
