"""The chat goes on whatever happens, and loses nothing that was said. Runs a tiny model."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import sys

import pytest

import maglio
from maglio.cli.answer_writer import View
from maglio.cli.chat_settings import Settings
from maglio.cli.entry import Entry
from maglio.cli.repl import Repl
from maglio.errors import InvalidArgumentError
from maglio.text import from_metadata
from support.chat_model import STOP, TEMPLATE, chat_model, vocabulary

SAMPLED = maglio.SamplingParams(temperature=0.9, logit_bias={STOP: 1.0}, seed=7)
CHAT_TOKENIZER = from_metadata(vocabulary())
REFUSING = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("repl-model")


@pytest.fixture(scope="module")
def model(folder):
    return chat_model(folder, n_ctx=1024)


class Script:
    """What is entered: texts, entries, or exceptions to raise."""

    def __init__(self, *entries, interactive=True):
        self.interactive = interactive
        self._entries = list(entries)

    def read(self):
        if not self._entries:
            raise EOFError
        entry = self._entries.pop(0)
        if isinstance(entry, BaseException):
            raise entry
        return entry if isinstance(entry, Entry) else Entry(entry)


def repl(chat, reader, out, view, **options):
    return Repl(chat, reader, out, view, settings=Settings(chat, CHAT_TOKENIZER), **options)


def talk(chat, *entries, interactive=True, out=None, autosave=None, as_json=False, **options):
    out = io.StringIO() if out is None else out
    view = View(color=False, as_json=as_json)
    reader = Script(*entries, interactive=interactive)
    status = repl(chat, reader, out, view, autosave=autosave, **options).run()
    return status, out


@pytest.fixture
def chat(model):
    return model.chat(sampling=SAMPLED, max_tokens=8)


LONG = "n" * 300
DIGITS = "9" * 5000
COMMANDS = [
    "/save ~nosuch/x",
    "/load ~nosuch",
    "/reference ~nosuch",
    "/reference ~nosuch/x",
    f"/save {LONG}",
    f"/load {LONG}",
    f"/reference {LONG}",
    f"/reference {LONG}.maglio",
    "/save a\0b",
    "/load a\0b",
    "/reference a\0b",
    f"/undo {DIGITS}",
    f"/set top_k {DIGITS}",
    f"/set temperature {DIGITS}",
    f"/set max_tokens {DIGITS}",
    f"/set seed {DIGITS}",
    "/set top_k -5000000000000",
    "/load /dev/zero",
    "/reference /dev/zero",
    "/save /dev/full",
    "/save /",
    "/load /",
    "/set",
    "/set magic 1",
    "/set temperature nan",
    "/set logit_bias hot",
    "/unset",
    "/unset magic",
    "/spec maybe",
    "/nonsense",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_ends_the_chat(chat, command, capsys):
    status, out = talk(chat, command, "hi")
    assert status == 0
    assert len(chat.turns) == 1
    assert out.getvalue()
    assert capsys.readouterr().err


@pytest.mark.parametrize("command", ["/save", "/load", "/reference"])
def test_a_named_pipe_is_refused_and_not_waited_for(chat, tmp_path, command, capsys):
    os.mkfifo(tmp_path / "pipe")
    talk(chat, f"{command} {tmp_path / 'pipe'}", "hi")
    assert "named pipe" in capsys.readouterr().err
    assert len(chat.turns) == 1


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        InvalidArgumentError("x"),
        RuntimeError("x"),
        MemoryError(),
        OSError(5, "x"),
    ],
)
def test_no_fault_of_a_command_ends_the_chat(chat, monkeypatch, error):
    def fail(_):
        raise error

    monkeypatch.setattr(type(chat), "add_reference", lambda *_: fail(0))
    assert talk(chat, "/reference x", "hi")[0] == 0
    assert len(chat.turns) == 1


def test_a_callback_that_fails_costs_its_answer_only(chat, tmp_path):
    calls = []

    def fail_once(done, total):
        calls.append(done)
        if len(calls) == 1:
            raise RuntimeError("the progress bar broke")

    chat.on_prefill = fail_once
    status, _ = talk(chat, "hi", "again", autosave=tmp_path / "talk.json")
    assert status == 0
    assert [turn.user for turn in chat.turns][-1] == "again"


class Full(io.StringIO):
    """A disk that is full after some characters."""

    def __init__(self, room):
        super().__init__()
        self.room = room

    def write(self, text):
        self.room -= len(text)
        if self.room < 0:
            raise OSError(28, "No space left on device")
        return super().write(text)


def test_answers_that_cannot_be_written_are_kept_and_saved(chat, tmp_path, capsys):
    path = tmp_path / "talk.json"
    status, _ = talk(chat, "hi", "again", out=Full(3), autosave=path)
    assert status == 0
    assert [turn["user"] for turn in json.loads(path.read_text())["turns"]] == ["hi", "again"]
    assert "No space left" in capsys.readouterr().err


def test_in_a_pipe_output_that_cannot_be_written_ends_it_after_saving(chat, tmp_path):
    path = tmp_path / "talk.json"
    with pytest.raises(maglio.MaglioError, match="standard output: No space left"):
        talk(chat, "hi", "again", out=Full(3), autosave=path, interactive=False)
    assert len(json.loads(path.read_text())["turns"]) == 1


def test_text_that_a_stream_cannot_show_is_replaced(model):
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii", errors="strict")
    biases = dict.fromkeys(model.tokenizer.encode("é"), 90.0)
    sampling = maglio.SamplingParams(logit_bias=biases)
    chat = model.chat(sampling=sampling, max_tokens=6)
    assert talk(chat, "hi", out=out)[0] == 0
    assert not chat.turns[0].answer.isascii()
    assert b"?" in raw.getvalue()


class Interrupting(io.StringIO):
    """Ctrl-C comes while the first answer is written."""

    def write(self, text):
        if not self.getvalue():
            super().write(text)
            raise KeyboardInterrupt
        return super().write(text)


def test_ctrl_c_in_a_pipe_ends_it_at_once_and_keeps_the_answer(chat, tmp_path):
    path = tmp_path / "talk.json"
    with pytest.raises(KeyboardInterrupt):
        talk(chat, "hi", "again", out=Interrupting(), autosave=path, interactive=False)
    (turn,) = json.loads(path.read_text())["turns"]
    assert (turn["user"], turn["finish_reason"]) == ("hi", "interrupted")


def test_ctrl_c_at_a_terminal_keeps_the_answer_and_goes_on(chat, capsys):
    entries = (KeyboardInterrupt(), "hi", KeyboardInterrupt(), "again")
    assert talk(chat, *entries, out=Interrupting())[0] == 0
    assert [turn.user for turn in chat.turns] == ["hi", "again"]
    assert "(stopped)" in capsys.readouterr().err


def test_a_terminal_that_is_gone_ends_the_chat(chat, capsys):
    assert talk(chat, "hi", OSError(5, "Input/output error"), "again")[0] == 0
    assert len(chat.turns) == 1
    assert "Input/output error" in capsys.readouterr().err


def test_messages_to_the_letter_are_not_commands(chat):
    talk(chat, "hi", Entry("/undo", verbatim=True), "//undo", "/usr/bin")
    assert [turn.user for turn in chat.turns] == ["hi", "/undo", "/undo", "/usr/bin"]


def test_changes_by_commands_are_saved(chat, tmp_path):
    path = tmp_path / "talk.json"
    (tmp_path / "doc.txt").write_text("the quick brown fox")
    seen = {}

    class Watching(Script):
        def read(self):
            if path.exists():
                seen[len(seen)] = json.loads(path.read_text())
            return super().read()

    commands = [
        "hi",
        "again",
        "/undo",
        "/system be brief",
        "/set temperature 0.25",
        f"/reference {tmp_path / 'doc.txt'}",
        "/unset system",
        "/clear",
        "/forget",
    ]
    view = View(color=False)
    repl(chat, Watching(*commands), io.StringIO(), view, autosave=path).run()
    assert [len(document["turns"]) for document in seen.values()] == [1, 2, 1, 1, 1, 1, 1, 0, 0]
    assert [document["system"] for document in seen.values()][2:8] == [
        None,
        *["be brief"] * 3,
        None,
        None,
    ]
    assert seen[4]["sampling"]["temperature"] == 0.25
    assert [len(document["references"]) for document in seen.values()][4:] == [0, 1, 1, 1, 0]


def test_a_system_prompt_that_the_template_refuses_can_be_taken_back(folder, capsys):
    chat = chat_model(folder, template=REFUSING + TEMPLATE).chat(max_tokens=4)
    talk(chat, "/system no", "lost", "/unset system", "hi")
    assert [turn.user for turn in chat.turns] == ["hi"]
    assert "no system role" in capsys.readouterr().err


def test_an_empty_system_prompt_is_one(chat, capsys):
    talk(chat, '/system ""', "/system")
    assert chat.system == ""
    assert "an empty system prompt" in capsys.readouterr().err
    talk(chat, "/unset system", "/system")
    assert chat.system is None


@pytest.mark.parametrize(
    "name",
    [field.name for field in dataclasses.fields(maglio.SamplingParams) if field.name != "seed"],
)
def test_every_sampling_setting_can_be_set_and_unset(chat, name):
    default = getattr(maglio.SamplingParams(), name)
    values = {"logit_bias": "5+1", "order": "llama.cpp", "dry_breakers": "7 1", "ignore_eos": "on"}
    talk(chat, f"/set {name} {values.get(name, 1)}")
    changed = getattr(chat.sampling, name)
    talk(chat, f"/unset {name}")
    assert getattr(chat.sampling, name) == default
    assert changed != default or default == 1


def test_repetitions_break_at_the_same_texts_as_on_the_command_line(chat):
    talk(chat, "/set dry_multiplier 0.8")
    breakers = [CHAT_TOKENIZER.token_bytes(token) for token in chat.sampling.dry_breakers]
    assert sorted(breakers) == [b"\n", b'"', b"*", b":"]
    talk(chat, "/unset dry_breakers", "/set dry_multiplier 0.5")  # not switched on: as they were
    assert chat.sampling.dry_breakers == ()


def test_a_seed_is_shown_where_random_numbers_are_drawn(chat, capsys):
    talk(chat, "/stats")
    assert "seed 7" in capsys.readouterr().err
    talk(chat, "/set temperature 0", "/stats")
    assert "seed" not in capsys.readouterr().err


def test_other_settings_can_be_set_and_unset(chat):
    changes = ("/set max_tokens 3", "/set on_full drop", r"/set stop \n")
    view = View(color=False)
    seen = []

    class Watching(Script):
        def read(self):
            seen.append((chat.max_tokens, chat.on_full, chat.stop))
            return super().read()

    back = ("/unset max_tokens", "/unset on_full", "/unset stop")
    repl(chat, Watching(*changes, *back), io.StringIO(), view).run()
    assert seen[3] == (3, "drop", ("\n",))
    assert seen[6] == (8, "stop", ())
    talk(chat, "/set seed 5")
    assert chat.sampling.seed == 5
    talk(chat, "/set seed -1")
    assert chat.sampling.seed != 5


def test_speculation_comes_back_as_it_was_set_up(model):
    how = maglio.Speculation(source="record", max_draft=3)
    chat = model.chat(speculation=how)
    talk(chat, "/spec off", "/spec on")
    assert chat.speculation == how


def test_a_single_turn_is_one_answer_even_if_it_fails(chat, folder):
    talk(chat, "/help", "hi", "again", single_turn=True)
    assert [turn.user for turn in chat.turns] == ["hi"]
    talk(chat, "x" * 5000, "again", single_turn=True)
    assert len(chat.turns) == 1


def test_the_first_message_may_be_given(chat):
    view = View(color=False)
    repl(chat, Script("again"), io.StringIO(), view).run("/undo")
    assert [turn.user for turn in chat.turns] == ["/undo", "again"]


def test_notes_that_cannot_be_written_are_left_out(chat, monkeypatch):
    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Gone())
    assert talk(chat, "/help", "/nonsense", "hi")[0] == 0
    assert len(chat.turns) == 1
