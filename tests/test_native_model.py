"""What a model file says about text, and whose fault it is when it says nonsense."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from maglio.cli.app import app
from maglio.default_model import default_model_path
from maglio.errors import ModelFileError
from maglio.gguf import ModelFile
from maglio.native_model import read_chat_template, read_tokenizer
from support.gguf_bytes import RawGguf


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    raw = RawGguf.read(default_model_path())
    raw.set("tokenizer.ggml.model", "martian")
    path = tmp_path_factory.mktemp("models") / "broken.gguf"
    path.write_bytes(raw.to_bytes())
    return path


def test_the_default_model_has_both():
    file = ModelFile(default_model_path())
    assert read_tokenizer(file).n_vocab == 49152
    assert list(read_chat_template(file)) == ["default"]
    assert "<|im_start|>" in read_chat_template(file)["default"]


def test_templates_have_the_names_that_the_file_gives_them(tmp_path):
    raw = RawGguf.read(default_model_path())
    raw.set("tokenizer.chat_template.tool_use", "with tools")
    raw.set("tokenizer.chat_templates", ["tool_use"])
    path = tmp_path / "named.gguf"
    path.write_bytes(raw.to_bytes())
    sources = read_chat_template(ModelFile(path))
    assert set(sources) == {"default", "tool_use"}
    assert sources["tool_use"] == "with tools"


def test_an_unknown_tokenizer_is_an_error_that_names_the_file(broken):
    with pytest.raises(ModelFileError, match=r"broken\.gguf.*martian"):
        read_tokenizer(ModelFile(broken))


@pytest.mark.parametrize(
    "arguments",
    [
        ["tokenize", "{text}", "-m", "{broken}"],
        ["index", "build", "{text}", "-o", "{text}.maglio", "-m", "{broken}"],
        ["bench", "replay", "{data}", "--tokenizer", "{broken}"],
    ],
    ids=["tokenize", "index", "replay"],
)
def test_commands_that_only_read_the_tokenizer_name_the_file(arguments, broken, tmp_path):
    text = tmp_path / "a.txt"
    text.write_text("hello")
    data = tmp_path / "gsm8k.jsonl"
    data.write_text('{"question": "1 + 1?", "answer": "2 #### 2"}\n')
    filled = [a.format(text=text, data=data, broken=broken) for a in arguments]
    result = CliRunner().invoke(app, filled)
    assert isinstance(result.exception, ModelFileError)
    assert "broken.gguf" in str(result.exception)
