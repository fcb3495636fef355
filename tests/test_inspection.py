"""What a file is said to be is what loading it finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import maglio
from maglio import inspection
from maglio.cli.app import app
from maglio.engine.native import NativeEngine
from maglio.errors import ModelFileError
from maglio.gguf import ModelFile
from support.models import FAMILIES
from support.real_models import real_model_path

DOCS = Path(__file__).parent.parent / "docs" / "models.md"


def run(*arguments: str):
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.mark.parametrize("family", FAMILIES)
def test_memory_is_said_as_loading_takes_it(tiny, family):
    path = tiny.path(family, "Q8_0")
    seen = inspection.inspect(path)
    engine = NativeEngine(ModelFile(path), threads=1)
    assert seen.architecture == family
    assert seen.memory is not None
    assert seen.memory.weights == engine.weight_bytes
    assert seen.memory.cache_per_token == engine.page_bytes / 64


def test_an_unknown_tokenizer_is_why_a_file_does_not_run(tiny, tmp_path):
    path = tmp_path / "other.gguf"
    path.write_bytes(tiny.path("llama", "Q8_0").read_bytes().replace(b"none", b"nine"))
    seen = inspection.inspect(path)
    assert not seen.runs
    assert "tokenizer" in seen.problems[0]
    assert str(seen.path) not in seen.problems[0]


def test_an_unknown_architecture_is_why_a_file_does_not_run(tiny, tmp_path):
    data = tiny.path("llama", "Q8_0").read_bytes()
    path = tmp_path / "other.gguf"
    path.write_bytes(data.replace(b"llama", b"lhama"))
    seen = inspection.inspect(path)
    assert (seen.memory, seen.architecture) == (None, "lhama")
    assert "'lhama' is not supported" in seen.problems[0]
    result = run("inspect", str(path))
    assert result.exit_code == 1
    assert "no: the architecture 'lhama'" in " ".join(result.stdout.split())


def test_what_is_no_model_file_is_an_error(tmp_path):
    path = tmp_path / "text.gguf"
    path.write_text("a text")
    with pytest.raises(ModelFileError, match=r"text\.gguf"):
        inspection.inspect(path)


def test_the_default_model_is_inspected_as_it_runs():
    path = real_model_path("smollm2-135m")
    result = run("inspect", str(path))
    assert result.exit_code == 0
    assert "134.5 million" in result.stdout
    assert result.stdout.splitlines()[-1].split() == ["runs", "yes"]
    document = json.loads(run("inspect", str(path), "--json").stdout)
    assert document["runs"] is True
    assert document["n_vocab"] == maglio.load(path, threads=1).tokenizer.n_vocab
    assert sum(entry["tensors"] for entry in document["formats"]) == 272


def test_models_lists_what_the_docs_list():
    document = json.loads(run("models", "--json").stdout)
    page = DOCS.read_text()
    families = page[page.index("## Families") : page.index("### What was checked")]
    assert [name for name in document["architectures"] if f"| `{name}` |" not in families] == []
    formats = page[page.index("## Formats") : page.index("## Tokenizers")]
    assert [name for name in document["formats"] if name not in formats] == []
    text = run("models").stdout
    assert all(name in text for name in (*document["architectures"], *document["pretokenizers"]))
