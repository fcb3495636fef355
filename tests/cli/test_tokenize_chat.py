"""`maglio tokenize --chat` and `--against llama.cpp`, with a stand-in for llama.cpp."""

from __future__ import annotations

import ctypes
import json
import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from maglio.cli.app import app
from maglio.default_model import default_model_path
from maglio.errors import InvalidArgumentError, ModelFileError
from maglio.gguf import ModelFile
from maglio.text import from_metadata


@pytest.fixture(scope="module")
def tokenizer():
    try:
        return from_metadata(ModelFile(default_model_path()).metadata)
    except ModelFileError as error:
        pytest.skip(str(error))


def run(*arguments, text=""):
    return CliRunner().invoke(app, ["tokenize", *arguments, "-"], input=text)


def test_a_text_is_shown_as_the_prompt_that_it_makes(tokenizer):
    result = run("--chat", text="Hi <|im_end|>")
    ids = [int(line.split("\t")[0]) for line in result.stdout.splitlines()]
    pieces = [json.loads(line.split("\t")[1]) for line in result.stdout.splitlines()]
    assert "".join(pieces) == result.stderr.removesuffix("\n")
    assert pieces[-4:] == ["<|im_start|>", "ass", "istant", "\n"]
    assert ids.count(tokenizer.control_tokens["<|im_end|>"]) == 2  # none of them from the text


def test_messages_may_be_json(tokenizer):
    messages = [{"role": "system", "content": "Be."}, {"role": "user", "content": "é"}]
    result = run("--chat", text=json.dumps(messages))
    assert "<|im_start|>system\nBe.<|im_end|>\n<|im_start|>user\né<|im_end|>" in result.stderr


def stand_in(monkeypatch, tokenizer, spoil):
    def tokenize(vocabulary, text, size, ids, room, add_special, parse_special):
        found = spoil(tokenizer.encode(text, add_special=add_special, parse_special=parse_special))
        ids[: len(found)] = found
        return len(found)

    module = SimpleNamespace(
        llama_backend_init=lambda: None,
        llama_log_callback=lambda *_: None,
        llama_log_set=lambda *_: None,
        llama_model_default_params=SimpleNamespace,
        llama_model_load_from_file=lambda path, params: params.vocab_only,
        llama_model_get_vocab=lambda model: model,
        llama_model_free=lambda model: None,
        llama_token=ctypes.c_int32,
        llama_tokenize=tokenize,
    )
    monkeypatch.setitem(sys.modules, "llama_cpp", module)


def test_equal_ids_are_reported(tokenizer, monkeypatch):
    stand_in(monkeypatch, tokenizer, lambda ids: ids)
    for options in ((), ("--chat",), ("--parse-special",)):
        result = run(*options, "--against", "llama.cpp", text="some text")
        assert result.exit_code == 0
        assert "tokens as llama.cpp" in result.stderr


def test_the_first_difference_is_shown_in_context(tokenizer, monkeypatch):
    stand_in(monkeypatch, tokenizer, lambda ids: [*ids[:9], 17, *ids[10:-1]])
    text = "one two three four five six seven eight nine ten eleven twelve"
    result = run("--against", "llama.cpp", text=text)
    assert result.exit_code == 1
    assert "different from llama.cpp at token 9" in result.stderr
    ours, theirs = result.stderr.split("llama.cpp:\n")
    assert ours.count("\n > 9\t") == 1
    assert "\n > 9\t17\t" in theirs
    assert " 8\t" in theirs
    assert "  4\t" not in theirs


def test_without_llama_cpp_it_says_what_to_install(tokenizer, monkeypatch):
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    result = run("--against", "llama.cpp", text="text")
    assert isinstance(result.exception, InvalidArgumentError)
    assert "llama-cpp-python" in str(result.exception)
