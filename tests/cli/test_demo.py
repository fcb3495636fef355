"""``maglio demo``: three questions, each answered without drafts and with them."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest
from typer.testing import CliRunner

import maglio
from maglio.bench.scenes import CHART, PACKING, SCENES, Scene
from maglio.cli.app import app
from maglio.errors import MaglioError
from support.chat_model import chat_model, write_chat_model
from support.real_models import real_model_path

COMMAND = (sys.executable, "-m", "maglio", "demo")
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
ANSWERS = re.compile(r"\[without drafts\]\n(.*?)\[with drafts\]\n(.*?)\n\n", re.DOTALL)


@pytest.fixture(scope="module")
def tiny_chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chat_model(tmp_path_factory.mktemp("models") / "tiny.gguf")


def demo(model: Path, *options: str):
    return CliRunner().invoke(app, ["demo", "-m", str(model), "-n", "40", *options])


def test_every_question_is_answered_twice_and_compared(tiny_chat):
    run = demo(tiny_chat)
    assert run.exit_code == 0, run.output
    assert "\x1b" not in run.stdout
    for scene in SCENES:
        assert scene.instruction in run.stdout
        assert re.search(rf"^{scene.name} +[0-9.]+ tok/s .* identical$", run.stdout, re.MULTILINE)
    answers = ANSWERS.findall(run.stdout)
    assert len(answers) == len(SCENES)
    assert all(plain.strip() == drafted.strip() != "" for plain, drafted in answers)


def test_colours_are_those_of_drafts_alone(tiny_chat):
    run = demo(tiny_chat, "--color", "on")
    bare = ESCAPES.sub("", run.stdout)
    assert "the original" in bare  # what a colour means
    assert len(ANSWERS.findall(bare)) == len(SCENES)
    parts = re.split(r"\x1b\[2m\[with(out)? drafts\]\x1b\[0m\n", run.stdout)[2::2]
    assert "\x1b[36m" not in "".join(parts[::2])
    assert "\x1b[36m" in "".join(parts[1::2])


def test_a_terminal_without_colours_gets_no_escape_sequences(tiny_chat):
    child = pexpect.spawn(
        COMMAND[0],
        [*COMMAND[1:], "-m", str(tiny_chat), "-n", "4"],
        env={**os.environ, "NO_COLOR": "1", "TERM": "xterm-256color"},
        encoding="utf-8",
        timeout=60,
    )
    child.expect(pexpect.EOF)
    assert "identical" in child.before
    assert "\x1b" not in child.before


def test_ctrl_c_ends_the_demo_and_its_line(tiny_chat):
    process = subprocess.Popen(
        [*COMMAND, "-m", str(tiny_chat), "-n", "3500"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    shown = b""
    while b"drafts]\n" not in shown:
        shown += process.stdout.read(1)
    shown += process.stdout.read(8)
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == b""
    assert (shown + rest).endswith(b"\n")
    assert b"identical" not in rest


def test_answers_that_differ_are_an_error_where_bits_are_promised(tiny_chat, monkeypatch):
    begin = Scene.stream

    def shorter_with_drafts(scene, model, prompt, *, max_tokens, speculative):
        return begin(
            scene, model, prompt, max_tokens=max_tokens - speculative, speculative=speculative
        )

    monkeypatch.setattr(Scene, "stream", shorter_with_drafts)
    run = demo(tiny_chat)
    assert isinstance(run.exception, MaglioError)
    assert "differed" in str(run.exception)
    assert run.stdout.count("DIFFERENT") == len(SCENES)


def test_the_second_answer_is_not_drafted_from_the_first(tmp_path):
    model = chat_model(tmp_path, n_ctx=1024)
    for speculative in (False, True, True):
        stream = SCENES[0].stream(
            model, SCENES[0].prompt(model), max_tokens=32, speculative=speculative
        )
        stats = stream.result().stats
    assert stats.drafted > 0
    assert "history" not in {name for name, counts in stats.sources.items() if counts.drafted}


def test_the_default_model_does_what_is_asked():
    model = real_model_path("smollm2-135m")
    run = CliRunner().invoke(app, ["demo", "-m", str(model), "--json"])
    assert run.exit_code == 0, run.output
    (document,) = map(json.loads, run.stdout.splitlines())
    restated, edited, free = document["scenes"]
    assert all(scene["identical"] for scene in document["scenes"])
    assert PACKING in restated["speculative"]["text"]
    code = edited["speculative"]["text"].removeprefix("```python\n")
    assert ast.dump(ast.parse(code)) == ast.dump(ast.parse(CHART.replace("blue", "green")))
    assert edited["speculative"]["accepted"] > 0
    assert free["speculative"]["tokens"] > 50


def test_a_prompt_that_the_context_has_no_room_for_is_refused(tiny_chat):
    run = demo(tiny_chat, "-c", "64")
    assert isinstance(run.exception, maglio.ContextFullError)
