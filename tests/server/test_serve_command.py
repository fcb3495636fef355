"""`maglio serve`, as a process: it says where it is, and ends in an orderly way."""

from __future__ import annotations

import fcntl
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import typer.main

from maglio.cli.app import app
from maglio.errors import MaglioError
from maglio.server.app import create_app
from maglio.server.serving import Server, open_socket
from maglio.server.serving import serve as run
from maglio.server.settings import Settings
from maglio.server.streams.service import Service
from maglio.server.telemetry.request_log import RequestLog
from support.serve_process import ended, serving, write_served_model

GROUP = typer.main.get_command(app)
CHAT = "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return write_served_model(tmp_path_factory.mktemp("serve") / "small.gguf")


def test_it_serves_and_ends_at_ctrl_c(model):
    with serving(model, "--alias", "mine", "--temp", "0", "--log-format", "json") as (url, process):
        answer = httpx.post(url + CHAT, json=HELLO | {"model": "mine", "max_tokens": 3})
        assert answer.status_code == 200
        assert answer.json()["usage"]["completion_tokens"] == 3
        props = httpx.get(url + "/props").json()
        assert props["default_generation_settings"]["params"]["temperature"] == 0.0
        assert props["default_generation_settings"]["n_ctx"] == 1 << 16
        process.send_signal(signal.SIGINT)
        status, log = ended(process)
    assert status == 130
    lines = log.splitlines()
    assert json.loads(lines[0])["path"] == CHAT
    # The line of the last request may come after it: a request is written once it is answered.
    assert "maglio: answers under way get 10 seconds; a second signal ends at once" in lines


def test_a_stream_finishes_before_the_end(model):
    body = HELLO | {"max_tokens": 800, "ignore_eos": True, "stream": True, "speculative": False}
    with serving(model) as (url, process), httpx.stream("POST", url + CHAT, json=body) as answer:
        lines = answer.iter_lines()
        next(lines)
        process.send_signal(signal.SIGTERM)
        assert list(lines)[-2] == "data: [DONE]"
        status, _ = ended(process)
    assert status == 0


def test_what_does_not_finish_in_time_is_told(model):
    body = HELLO | {"ignore_eos": True, "stream": True, "speculative": False}
    with serving(model, "--grace", "0.1") as (url, process):
        with httpx.stream("POST", url + CHAT, json=body) as answer:
            lines = answer.iter_lines()
            next(lines)
            process.send_signal(signal.SIGTERM)
            last = list(lines)[-2]
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "shutting_down"
        assert ended(process)[0] == 0


def test_a_conversation_goes_on_after_a_restart(model, tmp_path):
    body = {
        "messages": [{"role": "user", "content": "a long story about nothing. " * 8}],
        "max_tokens": 4,
        "temperature": 0,
    }

    def ask():
        with serving(model, "--cache-dir", str(tmp_path / "kept")) as (url, process):
            answer = httpx.post(url + CHAT, json=body).json()
            process.send_signal(signal.SIGTERM)
            assert ended(process)[0] == 0
        return answer

    first, again = ask(), ask()
    assert again["choices"] == first["choices"]
    usage = again["usage"]
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1


def test_a_log_that_nobody_reads_stops_nothing(model):
    path = "/nothing/" + "x" * 190
    with serving(model) as (url, process):
        assert process.stderr is not None
        fcntl.fcntl(process.stderr, fcntl.F_SETPIPE_SZ, 4096)
        with httpx.Client(base_url=url, timeout=60) as client:
            for _ in range(100):
                assert client.get(path).status_code == 404
            assert client.post(CHAT, json=HELLO).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_a_second_signal_ends_at_once(model):
    body = HELLO | {"ignore_eos": True, "stream": True, "speculative": False}
    with (
        serving(model, "--grace", "3000") as (url, process),
        httpx.stream("POST", url + CHAT, json=body) as answer,
    ):
        lines = answer.iter_lines()
        next(lines)  # to let go of the lines would be to leave
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert "a second signal" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT


def test_keys_come_from_options_a_file_and_the_environment(model, tmp_path):
    file = tmp_path / "keys"
    file.write_text("two\n\n three \n")
    options = ("--api-key-file", str(file))
    with serving(model, *options, MAGLIO_API_KEY="one") as (url, _):
        statuses = [
            httpx.get(url + "/v1/models", headers={"authorization": f"Bearer {key}"}).status_code
            for key in ("one", "two", "three", "four")
        ]
    assert statuses == [200, 200, 200, 401]


def refusal(*options: str) -> str:
    """What a command line that cannot work is told, before any model is loaded."""
    command = GROUP.commands["serve"]
    with pytest.raises(MaglioError) as caught:
        command.main(["-m", "none.gguf", *options], standalone_mode=False)
    return str(caught.value)


def test_an_address_in_use_is_refused_before_the_model_is_loaded():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert refusal("--port", str(port)) == (
            f"cannot listen on 127.0.0.1:{port}: Address already in use; choose another address "
            "with --host and --port"
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--host", "no.such.host.invalid"), "--host is 'no.such.host.invalid'"),
        (("--port", "0", "--cors", "example.com"), "--cors is 'example.com'"),
        (("--api-key", ""), "an API key is empty"),
        (("--cache-dir", "x", "--prefix-cache", "0"), "give either --cache-dir or --prefix-cache"),
        (("--api-key-file", "/dev/null"), "/dev/null has no API key in it"),
        (("--port", "0"), "none.gguf"),
    ],
)
def test_options_that_cannot_work_are_refused(options, message):
    assert message in refusal(*options)


def test_without_the_extra_it_says_what_to_install():
    program = (
        "import sys\n"
        "sys.modules['starlette'] = None\n"
        "sys.argv = ['maglio', 'serve']\n"
        "from maglio.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert 'pip install "maglio[server]"' in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_command_line_imports_nothing_of_the_extra():
    program = (
        "import sys, maglio, maglio.cli.app\n"
        "extra = {'starlette', 'uvicorn', 'pydantic', 'prometheus_client', 'llguidance'}\n"
        "sys.exit(bool(extra & {name.partition('.')[0] for name in sys.modules}))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_when_it_says_that_it_serves_it_can_be_reached(tiny_chat):
    """The callback that says so runs in the server's own thread, so nothing can happen after it."""
    reached = []
    service = Service(tiny_chat, parallel=1, queue=1)
    bound = open_socket("127.0.0.1", 0)

    def connect() -> None:
        with socket.create_connection(bound.getsockname(), timeout=30):
            reached.append(True)
        server.should_exit = True

    app = create_app(service, Settings(names=("x",)), RequestLog("off", sys.stderr))
    server = Server(app, service, grace=0, on_start=connect)
    run(server, bound)
    assert reached == [True]
