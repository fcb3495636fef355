"""The command line as a process: what goes to stdout, to stderr, and how it ends."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys

import pytest

from maglio import load
from maglio.cli.terminal import wants_color
from support.real_models import real_model_path

PROMPT = "One two three, one two three, one two"


COMMAND = (sys.executable, "-c", "import maglio.cli; maglio.cli.main()")


def maglio(*arguments: str, stdin: bytes = b"", **environment: str):
    return subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        check=False,
        timeout=120,
        env=os.environ | environment,
    )


@pytest.fixture(scope="module", autouse=True)
def default_model():
    return real_model_path("smollm2-135m")


def test_stdout_is_the_text_and_stderr_one_line():
    run = maglio("generate", "-p", PROMPT, "-n", "12", "-t", "1")
    assert run.returncode == 0
    text = load(n_ctx=256).generate(PROMPT, max_tokens=12).text
    assert run.stdout.decode() == text + "\n"
    (line,) = run.stderr.decode().splitlines()
    assert "prompt 10 tokens" in line
    assert "generation 12 tokens" in line
    assert "tokens/step" in line


def test_speculation_does_not_show_in_the_text():
    arguments = ("generate", "-p", PROMPT, "-n", "24", "--temp", "0.9", "--seed", "3")
    assert maglio(*arguments, "--spec").stdout == maglio(*arguments, "--no-spec").stdout


def test_stdin_and_files_are_prompts(tmp_path):
    file = tmp_path / "prompt.txt"
    file.write_text(PROMPT)
    wanted = maglio("generate", "-p", PROMPT, "--gen", "8").stdout
    assert maglio("generate", "-p", "-", "--gen", "8", stdin=PROMPT.encode()).stdout == wanted
    assert maglio("generate", "-f", "-", "--gen", "8", stdin=PROMPT.encode()).stdout == wanted
    assert maglio("generate", "-f", str(file), "--gen", "8").stdout == wanted


def test_json_is_one_document():
    run = maglio("generate", "-p", PROMPT, "-n", "16", "--json")
    document = json.loads(run.stdout)
    assert document["finish_reason"] == "length"
    assert len(document["tokens"]) == document["stats"]["committed"] == 16
    assert document["stats"]["sources"]["conversation"]["accepted"] > 0


def test_colour_marks_accepted_tokens_and_can_be_forced():
    plain = maglio("generate", "-p", PROMPT, "-n", "12")
    coloured = maglio("generate", "-p", PROMPT, "-n", "12", "--color", "on")
    assert b"\x1b[" not in plain.stdout
    assert b"\x1b[36m" in coloured.stdout


@pytest.mark.parametrize(
    ("choice", "terminal", "no_color", "colored"),
    [
        ("auto", True, "", True),
        ("auto", True, "1", False),
        ("auto", False, "", False),
        ("on", False, "1", True),
        ("off", True, "", False),
    ],
)
def test_no_color_turns_automatic_colour_off(monkeypatch, choice, terminal, no_color, colored):
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal, raising=False)
    monkeypatch.setenv("NO_COLOR", no_color)
    assert wants_color(choice, stream) is colored


def test_ctrl_c_ends_the_answer_with_what_was_generated():
    process = subprocess.Popen(
        [
            *COMMAND,
            "generate",
            "-p",
            "Count: 1, 2, 3, 4,",
            "-n",
            "2000",
            "--stop",
            "never to be seen",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    begun = process.stdout.read(8)
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (begun + rest).endswith(b"\n")
    (line,) = errors.decode().splitlines()
    assert "generation" in line
    assert "Traceback" not in line


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (("generate", "-p", "Count: 1, 2, 3, 4,", "-n", "400"), 0),
        (("tokenize", "-"), 4000),
        (("chat", "-n", "400"), 20),
    ],
)
def test_a_reader_that_leaves_ends_us_in_silence(arguments, lines):
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdin.write(b"Count from one to a hundred, please.\n" * lines)
    process.stdin.close()
    process.stdout.read(1)
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 141
    assert errors == b""


@pytest.mark.parametrize(
    "arguments",
    [
        ("generate", "-p", "x", "-n", "3"),
        ("generate", "-p", "x", "-n", "3", "--json"),
        ("chat", "-n", "3"),
        ("tokenize", "-"),
        ("--help",),
    ],
)
def test_a_full_disk_is_one_clear_error(arguments):
    with open("/dev/full", "wb") as full:
        run = subprocess.run(
            [*COMMAND, *arguments],
            input=b"hi\n",
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    assert run.returncode == 1
    assert run.stderr == b"maglio: cannot write to standard output: No space left on device\n"


@pytest.mark.parametrize(
    ("command", "closed", "says"),
    [
        ("generate -p -", "<&-", "standard input: it is closed"),
        ("generate -f -", "<&-", "standard input: it is closed"),
        ("tokenize -", "<&-", "standard input: it is closed"),
        ("chat", "<&-", "standard input: it is closed"),
        ("generate -p x", ">&-", "standard output: it is closed"),
    ],
)
def test_a_closed_stream_is_one_clear_error(command, closed, says):
    python = f'"{sys.executable}" -c "import maglio.cli; maglio.cli.main()"'
    run = subprocess.run(
        ["sh", "-c", f"{python} {command} {closed}"], capture_output=True, check=False, timeout=60
    )
    assert run.returncode == 1
    (line,) = run.stderr.decode().splitlines()
    assert line.startswith("maglio: cannot ")
    assert says in line


def test_nothing_for_standard_error_ends_up_in_the_text():
    python = f'"{sys.executable}" -c "import maglio.cli; maglio.cli.main()"'
    command = f"{python} generate -p 'One two three' -n 3 --stats 2>&-"
    run = subprocess.run(["sh", "-c", command], capture_output=True, check=False, timeout=60)
    assert run.returncode == 0
    assert b"tokens" not in run.stdout


def test_many_interrupts_end_without_a_traceback():
    process = subprocess.Popen(
        [*COMMAND, "generate", "-p", "Count: 1, 2, 3, 4,", "-n", "2000", "--ignore-eos"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.read(8)
    for _ in range(50):
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT)
    assert b"Traceback" not in errors


def test_text_is_shown_in_whatever_encoding_there_is():
    run = maglio("generate", "-p", "世界 世界 世界 世", "-n", "4", PYTHONIOENCODING="ascii")
    assert run.returncode == 0
    assert b"?" in run.stdout
    chat = ("tokenize", "--chat", "-")
    run = maglio(*chat, stdin="世界".encode(), PYTHONIOENCODING="latin-1")
    assert run.returncode == 0
    assert b"assistant" in run.stderr


def test_without_a_seed_sampling_differs_and_can_be_repeated():
    arguments = ("generate", "-p", "Once upon a time", "-n", "16", "--temp", "1.5", "--json")
    first, second = (json.loads(maglio(*arguments).stdout) for _ in range(2))
    assert first["text"] != second["text"]
    again = json.loads(maglio(*arguments, "--seed", str(first["seed"])).stdout)
    assert again["text"] == first["text"]
    stats = maglio("generate", "-p", "x", "-n", "2", "--seed", "77", "--stats").stderr
    assert b"seed" not in stats  # nothing is drawn
    stats = maglio(
        "generate", "-p", "x", "-n", "2", "--seed", "77", "--temp", "1", "--stats"
    ).stderr
    assert b"seed 77\n" in stats


def test_stats_say_how_keys_and_values_are_kept():
    arguments = ("generate", "-p", "x", "-n", "2", "--stats")
    assert b"KV cache f16\n" in maglio(*arguments).stderr
    assert b"KV cache q8_0\n" in maglio(*arguments, "--kv-cache", "q8_0").stderr


def test_a_whole_context_is_the_models_own():
    document = json.loads(maglio("generate", "-p", "x", "-n", "1", "-c", "0", "--json").stdout)
    assert document["finish_reason"] == "length"
    long = "a " * 5000  # more than the default context has room for
    assert maglio("generate", "-f", "-", "-n", "1", stdin=long.encode()).returncode == 1
    assert maglio("generate", "-f", "-", "-n", "1", "-c", "0", stdin=long.encode()).returncode == 0


def test_generating_can_go_on_until_the_context_ends():
    run = maglio("generate", "-p", "x y", "-n", "-1", "-c", "40", "--ignore-eos", "--json")
    document = json.loads(run.stdout)
    assert document["finish_reason"] == "length"
    assert 36 <= len(document["tokens"]) <= 40


def test_control_tokens_in_a_prompt_are_text_unless_asked_for():
    prompt = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    runs = [maglio("generate", "-p", prompt, "-n", "2", *f) for f in ((), ("--special",))]
    counts = [int(run.stderr.split()[1]) for run in runs]
    assert counts[1] < counts[0]
    shown = maglio("generate", "-p", "One, two,", "-n", "2", "--display-prompt").stdout
    assert shown.startswith(b"One, two,")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("generate", "-p", "x", "-m", "nowhere.gguf"), "nowhere.gguf"),
        (("generate", "-p", ""), "empty"),
        (("generate",), "--prompt"),
        (("generate", "-p", "x", "-f", "y"), "--prompt"),
        (("generate", "-f", "nowhere.txt"), "nowhere.txt"),
        (("generate", "-p", "x", "--temp", "nan"), "temperature"),
        (("generate", "-p", "x", "--kv-cache", "q4"), "kv_cache is 'q4', must be f16 or q8_0"),
        (("generate", "-p", "x", "-n", "-3"), "max_tokens"),
        (("tokenize", "nowhere.txt"), "nowhere.txt"),
    ],
)
def test_a_failure_is_one_line_that_names_the_culprit(arguments, says):
    run = maglio(*arguments)
    assert run.returncode == 1
    assert run.stdout == b""
    (line,) = run.stderr.decode().splitlines()
    assert line.startswith("maglio: ")
    assert says in line


def test_tokenize_prints_one_id_per_line(tmp_path):
    file = tmp_path / "text.txt"
    file.write_bytes("héllo \xff".encode("latin-1"))
    lines = maglio("tokenize", str(file)).stdout.split()
    assert lines
    assert all(line.isdigit() for line in lines)
    assert maglio("tokenize", "-", stdin=file.read_bytes()).stdout.split() == lines


@pytest.mark.parametrize("variables", ["[1]", "{", "1"])
def test_template_variables_are_a_json_object(variables):
    for command in (["chat"], ["tokenize", "--chat", "-"]):
        run = maglio(*command, "--chat-template-kwargs", variables, stdin=b"hello")
        assert run.returncode == 1
        assert run.stderr.count(b"\n") == 1
        assert b"--chat-template-kwargs" in run.stderr


@pytest.mark.parametrize(("flag", "command"), [("--spec-bench", "probe"), ("--repl", "chat")])
def test_commands_that_others_spell_as_flags_work_so_too(flag, command):
    shown = maglio(flag, "--help")
    assert shown.returncode == 0
    assert f" {command} [OPTIONS]".encode() in shown.stdout
    assert shown.stdout == maglio(command, "--help").stdout
    assert maglio("--nonsense", "--help").returncode != 0
