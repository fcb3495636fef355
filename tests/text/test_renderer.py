"""The renderer process: kept, limited, ended, and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from maglio.text.renderer import Renderer
from maglio.text.rendering import RenderError, RenderRequest

ENDLESS = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"


def request(source="{{ x }}", **values):
    return RenderRequest(source, values, {}, (), 0xF0000, "2026-01-01T00:00:00", 1 << 16)


def pid(renderer):
    return renderer._process._child.pid


@pytest.fixture
def renderer():
    made = Renderer(memory=128 << 20, seconds=0.2)
    yield made
    made.close()


def test_one_process_serves_many_renderings(renderer):
    assert renderer.render(request(x="a")).plain == "a"
    first = pid(renderer)
    assert renderer.render(request(x="b")).plain == "b"
    assert pid(renderer) == first


def test_a_template_that_does_not_end_is_stopped_and_the_next_is_rendered(renderer):
    renderer.render(request(x="a"))
    first = pid(renderer)
    with pytest.raises(RenderError, match=r"ran for more than 0\.\d seconds"):
        renderer.render(request(ENDLESS))
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    assert renderer.render(request(x="b")).plain == "b"


def test_memory_grows_with_the_conversation_and_has_a_limit():
    renderer = Renderer(memory=64 << 20, seconds=5)
    with pytest.raises(RenderError, match=r"too much memory \(limit 68 MiB\)"):
        renderer.render(request("{{ ('a' * 10**8) | length }}"))
    text = "a" * (1 << 20)
    large = RenderRequest("{{ (x * 100) | length }}", {"x": text}, {}, (), 0, "2026-01-01", 1 << 23)
    assert renderer.render(large).plain == str(100 << 20)
    renderer.close()


def test_time_grows_with_the_messages(renderer):
    busy = "{% for i in range(300) %}{% for j in range(9999) %}{% endfor %}{% endfor %}done"
    with pytest.raises(RenderError, match="ran for more than"):
        renderer.render(request(ENDLESS, messages=[{}] * 100))
    assert renderer.render(request(busy, messages=[{}] * 2000)).plain == "done"


def test_that_time_has_a_limit_too(renderer, monkeypatch):
    monkeypatch.setattr("maglio.text.renderer._MOST_SECONDS", 0.1)
    with pytest.raises(RenderError, match=r"ran for more than 0\.3 seconds"):
        renderer.render(request(ENDLESS, messages=[{}] * 100_000))


def test_what_is_written_has_a_limit(renderer):
    with pytest.raises(RenderError, match="wrote more than 65536 characters"):
        renderer.render(request("{{ 'a' * 65537 }}"))
    assert len(renderer.render(request("{{ 'a' * 65536 }}")).plain) == 65536


def test_a_process_that_was_killed_is_replaced(renderer):
    renderer.render(request(x="a"))
    os.kill(pid(renderer), signal.SIGKILL)
    renderer._process._child.wait()
    assert renderer.render(request(x="b")).plain == "b"


def test_a_process_that_dies_at_work_is_an_error(renderer, monkeypatch):
    renderer.render(request(x="a"))
    process = renderer._process
    send = process._send

    def send_and_kill(*arguments):
        send(*arguments)
        os.kill(process._child.pid, signal.SIGKILL)

    monkeypatch.setattr(process, "_send", send_and_kill)
    with pytest.raises(RenderError, match="was stopped: its process ended with status -9"):
        renderer.render(request(ENDLESS))


def test_an_interrupt_at_the_terminal_does_not_reach_the_process(renderer):
    renderer.render(request(x="a"))
    first = pid(renderer)
    assert os.getsid(first) != os.getsid(0)
    os.kill(first, signal.SIGINT)
    assert renderer.render(request(x="b")).plain == "b"
    assert pid(renderer) == first


def test_an_interrupted_rendering_ends_its_process(renderer, monkeypatch):
    renderer.render(request(x="a"))
    first = pid(renderer)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(renderer._process, "_receive", interrupt)
    with pytest.raises(KeyboardInterrupt):
        renderer.render(request(x="b"))
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    assert renderer.render(request(x="c")).plain == "c"


def test_threads_get_their_own_answers(renderer):
    found = {}

    def work(name):
        found[name] = [renderer.render(request(x=name)).plain for _ in range(20)]

    threads = [threading.Thread(target=work, args=(f"t{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {f"t{i}": [f"t{i}"] * 20 for i in range(4)}


FORK = """
import os
from maglio.text.renderer import shared
from maglio.text.rendering import RenderRequest

def said(x):
    return shared.render(
        RenderRequest("{{ x }}", {"x": x}, {}, (), 0, "2026-01-01", 99)
    ).plain

assert said("a") == "a"
first = shared._process._child.pid
child = os.fork()
if child == 0:
    good = said("b") == "b" and shared._process._child.pid != first
    shared.close()
    os._exit(0 if good else 1)
_, status = os.waitpid(child, 0)
assert status == 0
assert said("c") == "c" and shared._process._child.pid == first
print(first)
"""


def test_a_fork_starts_its_own_process_and_none_outlives_its_parent():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORK], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


def test_a_process_that_cannot_start_is_an_error(renderer, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(RenderError, match="its process does not start: No such file"):
        renderer.render(request(x="a"))


def test_a_process_that_does_not_get_ready_is_an_error(renderer, monkeypatch):
    monkeypatch.setattr("maglio.text.renderer._START_SECONDS", 0)
    with pytest.raises(RenderError, match="seconds to start; try again"):
        renderer.render(request(x="a"))


def test_a_process_that_answers_nonsense_is_not_believed(renderer, monkeypatch):
    renderer.render(request(x="a"))
    monkeypatch.setattr(renderer._process, "_receive", lambda *_: {"plain": 1})
    with pytest.raises(RenderError, match="gave no rendering"):
        renderer.render(request(x="b"))
    assert renderer.render(request(x="c")).plain == "c"


def test_a_conversation_may_be_larger_than_the_limits_of_the_one_before(renderer):
    renderer.render(request(x="a"))
    first = pid(renderer)
    text = "a" * (40 << 20)
    large = RenderRequest("{{ x | length }}", {"x": text}, {}, (), 0, "2026-01-01", 1 << 26)
    assert renderer.render(large).plain == str(len(text))
    assert pid(renderer) == first
