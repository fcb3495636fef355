"""ollama's store is read in place, and its manifests are not trusted."""

from __future__ import annotations

import hashlib
import json
import os

import pytest

import maglio
from maglio.errors import ModelFileError
from maglio.sources.find import find_model
from support.chat_model import write_chat_model

MODEL = "application/vnd.ollama.image.model"


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "store"))
    (tmp_path / "store" / "blobs").mkdir(parents=True)
    return tmp_path / "store"


def add(store, layers, *path, text=None):
    host, owner, name, tag = path or ("registry.ollama.ai", "library", "tiny", "latest")
    manifest = store / "manifests" / host / owner / name / tag
    manifest.parent.mkdir(parents=True, exist_ok=True)
    document = {"schemaVersion": 2, "layers": layers}
    manifest.write_text(json.dumps(document) if text is None else text)
    return manifest


def layer(store, data, kind=MODEL, **changed):
    digest = hashlib.sha256(data).hexdigest()
    (store / "blobs" / f"sha256-{digest}").write_bytes(data)
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data), **changed}


def test_a_model_of_the_store_loads_and_answers(store, tmp_path):
    data = write_chat_model(tmp_path / "m.gguf").read_bytes()
    text = layer(store, b"{{ .Prompt }}", "application/vnd.ollama.image.template")
    add(store, [layer(store, data), text])
    add(store, [layer(store, data)], "hf.co", "me", "tiny", "Q4_0")
    expected = maglio.load(tmp_path / "m.gguf").generate("hello", max_tokens=5).tokens
    for name in ("ollama:tiny", "ollama:tiny:latest", "ollama:hf.co/me/tiny:Q4_0"):
        assert maglio.load(name).generate("hello", max_tokens=5).tokens == expected


def test_a_model_that_is_missing_says_how_to_get_it(store):
    with pytest.raises(ModelFileError) as error:
        find_model("ollama:qwen3:4b")
    assert "ollama pull qwen3:4b" in str(error.value)
    assert str(store) in str(error.value)


def test_the_store_of_the_user_is_looked_at_where_no_other_is_named(tmp_path, monkeypatch):
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    store = tmp_path / ".ollama" / "models"
    (store / "blobs").mkdir(parents=True)
    add(store, [layer(store, b"GGUF")])
    assert find_model("ollama:tiny").read_bytes() == b"GGUF"


DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("layers", "why"),
    [
        ([], "lists 0 files of weights"),
        ([{"mediaType": MODEL, "digest": "../../etc/passwd", "size": 1}], "is not a SHA-256"),
        ([{"mediaType": MODEL, "digest": "sha256:../../x", "size": 1}], "is not a SHA-256"),
        ([{"mediaType": MODEL, "digest": DIGEST + "/..", "size": 1}], "is not a SHA-256"),
        ([{"mediaType": MODEL, "digest": 7, "size": 1}], "is not a SHA-256"),
        ([{"mediaType": MODEL, "size": 1}], "is not a SHA-256"),
        ([{"mediaType": MODEL, "digest": DIGEST, "size": 1}], "cannot read"),
        ([{"mediaType": MODEL, "digest": DIGEST}] * 2, "lists 2 files of weights"),
        ([{"mediaType": "application/vnd.ollama.image.adapter"}], "adapters are not supported"),
        ([7], "not an object"),
        ([{}] * 1001, "no list of at most 1000 layers"),
        ("layers", "no list"),
        (None, "no list"),
    ],
)
def test_a_hostile_manifest_is_refused(store, layers, why):
    add(store, layers)
    with pytest.raises(ModelFileError, match=why):
        find_model("ollama:tiny")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "no list"),
        ('{"layers": [' + " " * (1 << 20) + "]}", "more than"),
    ],
)
def test_a_damaged_manifest_is_refused(store, text, why):
    add(store, [], text=text)
    with pytest.raises(ModelFileError, match=why):
        find_model("ollama:tiny")


def test_a_manifest_that_is_not_a_file_is_refused(store):
    manifest = add(store, [])
    manifest.unlink()
    os.mkfifo(manifest)
    with pytest.raises(ModelFileError, match="named pipe"):
        find_model("ollama:tiny")


@pytest.mark.parametrize("size", [3, 5, "4", None, True])
def test_a_blob_of_another_size_is_refused(store, size):
    add(store, [layer(store, b"GGUF", size=size)])
    with pytest.raises(ModelFileError, match="pull it again"):
        find_model("ollama:tiny")


def test_a_blob_that_is_not_a_file_is_refused(store):
    wanted = layer(store, b"GGUF")
    blob = store / "blobs" / wanted["digest"].replace(":", "-")
    blob.unlink()
    os.mkfifo(blob)
    add(store, [wanted])
    with pytest.raises(ModelFileError, match="named pipe"):
        find_model("ollama:tiny")
