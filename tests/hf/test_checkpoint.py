"""Checkpoints as people have them: what is opened, and what is said where it cannot be."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import maglio
from maglio.cli.app import app
from maglio.engine.registry import engine_for, engine_names
from maglio.errors import InvalidArgumentError, MaglioError, ModelFileError
from support.templates import OWN

CONVERSATION = [
    {"role": "user", "content": "an ant's\n  <think> é"},
    {"role": "assistant", "content": "ten"},
    {"role": "user", "content": "a"},
]
# The library knows no statement "do".
TEMPLATES = {name: text for name, text in OWN.items() if " do " not in text}
TEMPLATES |= {"of the checkpoint": None}


@pytest.fixture(scope="module")
def model(checkpoints):
    return maglio.load(checkpoints.folder("llama"), engine="transformers", n_ctx=100)


def test_a_folder_with_a_configuration_is_opened_by_itself(checkpoints, tmp_path):
    folder = checkpoints.folder("llama")
    assert "transformers" in engine_names()
    assert engine_for(folder) == "transformers"
    assert engine_for(tmp_path) == "native"
    assert engine_for(Path("model.gguf")) == "native"
    loaded = maglio.load(folder)
    assert loaded.engine.name == "transformers"
    assert loaded.engine.n_ctx == 256
    assert loaded.name == folder.name
    assert loaded.profile_key is not None


def test_the_tokenizer_is_that_of_the_checkpoint(checkpoints, model):
    theirs = checkpoints.tokenizer()
    for text in ("an ant's\n  <think> é", "ten</s>"):
        assert model.tokenizer.encode(text, parse_special=True) == theirs(text).input_ids
    assert model.tokenizer.n_vocab == model.engine.n_vocab == 288
    ends = theirs.convert_tokens_to_ids(["</s>", "<|im_end|>"])
    assert model.tokenizer.eog_ids == frozenset(ends)
    assert model.tokenizer.bos_id == theirs.bos_token_id


@pytest.mark.parametrize("name", TEMPLATES)
def test_conversations_are_written_as_the_library_writes_them(checkpoints, model, name):
    theirs = checkpoints.tokenizer()
    template = model.chat_template
    if TEMPLATES[name] is not None:
        theirs.chat_template = TEMPLATES[name]
        template = maglio.text.ChatTemplate(TEMPLATES[name], model.tokenizer)
    for add in (True, False):
        options = {"add_generation_prompt": add}
        expected = theirs.apply_chat_template(CONVERSATION, tokenize=False, **options)
        rendered = template.render(CONVERSATION, **options)
        assert rendered.text == expected
        ids = theirs.apply_chat_template(CONVERSATION, return_dict=False, **options)
        assert template.encode(rendered) == ids


def test_chats_go_on(model):
    chat = model.chat(max_tokens=5)
    for text in ("an ant", "ten"):
        assert 1 <= len(list(chat.send(text))) <= 5
        assert chat.turns[-1].finish_reason in ("stop", "length")


def test_grammars_hold(model):
    for name in ("ant", "ten"):
        answer = model.generate("a", grammar=maglio.Grammar.choice([name]), max_tokens=9)
        assert answer.text == name
        assert answer.finish_reason == "stop"


def test_options_reach_the_library(checkpoints):
    loads = []
    loaded = maglio.load(
        checkpoints.folder("llama"),
        engine="transformers",
        dtype="bfloat16",
        device="cpu",
        threads=1,
        on_load=lambda done, total: loads.append((done, total)),
    )
    assert loaded.engine.isa == "cpu torch.bfloat16"
    assert loaded.engine.threads == 1
    assert loads[0][0] == 0
    assert loads[-1][0] == loads[-1][1] > 0


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"kv_cache": "q8_0"}, "data type of the model"),
        ({"dtype": "int3"}, "dtype is 'int3'"),
        ({"device": "abacus"}, "device is 'abacus'"),
        ({"n_ctx": 0}, "n_ctx is 0"),
        ({"flavour": 1}, "no option 'flavour'"),
    ],
)
def test_options_that_cannot_work_are_refused(checkpoints, option, message):
    with pytest.raises(InvalidArgumentError, match=message):
        maglio.load(checkpoints.folder("llama"), engine="transformers", **option)


def test_damaged_checkpoints_are_named(checkpoints, tmp_path):
    for damage in ("weights", "configuration", "tokenizer"):
        folder = tmp_path / damage
        shutil.copytree(checkpoints.folder("llama"), folder)
        if damage == "weights":
            (folder / "model.safetensors").write_bytes(b"\xff" * 64)
        elif damage == "configuration":
            (folder / "config.json").write_text("{")
        else:
            (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0"}))
        with pytest.raises(ModelFileError, match=damage):
            maglio.load(folder, engine="transformers")
    with pytest.raises(ModelFileError, match=r"no config\.json"):
        maglio.load(tmp_path, engine="transformers")
    with pytest.raises(ModelFileError, match="opens a folder"):
        maglio.load(tmp_path / "not" / "there", engine="transformers")


def test_a_name_on_the_hub_is_looked_up_there(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelFileError, match="cannot be fetched from the hub"):
        maglio.load("nobody/nothing", engine="transformers")


def test_commands_open_checkpoints(checkpoints):
    folder = str(checkpoints.folder("llama"))
    arguments = ["generate", "-m", folder, "-p", "an ant", "-n", "4", "-c", "0", "--threads", "1"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert torch.get_num_threads() == 1


def test_a_missing_package_is_one_clear_error(checkpoints, monkeypatch):
    folder = checkpoints.folder("llama")
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.startswith("maglio.engine.transformers")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(MaglioError, match=r'pip install "maglio\[hf\]"'):
        maglio.load(folder)


def test_what_the_page_shows_runs(checkpoints, tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "engines.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    blocks = [block for block in blocks if '"checkpoint"' in block]
    assert len(blocks) == 3
    (tmp_path / "checkpoint").symlink_to(checkpoints.folder("llama"))
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(blocks), "docs/engines.md", "exec"), {})
