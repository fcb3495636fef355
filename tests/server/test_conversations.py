"""A long conversation: no turn reads again what the turns before it have left, not even after a
restart, or after a server that was killed while it saved."""

from __future__ import annotations

import itertools
import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from support.serve_process import ended, serving, write_served_model

PAGE = 64
TURNS = 20
KILLED = """
import os, signal
from maglio.cli import main
from maglio.engine.native import NativeEngine

write = NativeEngine.write_caches

def dying(self, caches, descriptor):
    write(self, caches, descriptor)
    os.ftruncate(descriptor, 5000)  # as far as it came
    os.kill(os.getpid(), signal.SIGKILL)

NativeEngine.write_caches = dying
main()
"""


class Turn(NamedTuple):
    """What one turn took."""

    prompt: int
    cached: int


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_served_model(tmp_path_factory.mktemp("talk") / "small.gguf")


def say(url: str, messages: list[dict[str, str]], text: str) -> Turn:
    """One more turn; the answer is put to the messages."""
    messages.append({"role": "user", "content": text})
    body = {"messages": messages, "max_tokens": 12, "temperature": 0}
    answer: dict[str, Any] = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60).json()
    messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
    usage = answer["usage"]
    return Turn(usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"])


def end(process: Any) -> None:
    process.send_signal(signal.SIGTERM)
    status, log = ended(process)
    assert status == 0
    assert "warning" not in log.lower()


def test_a_turn_reads_what_is_new_and_nothing_of_the_history(model: Path, tmp_path: Path) -> None:
    messages: list[dict[str, str]] = []
    with serving(model, "--cache-dir", str(tmp_path)) as (url, process):
        turns = [say(url, messages, f"and now turn number {n}?") for n in range(TURNS)]
        end(process)
    for before, turn in itertools.pairwise(turns):
        assert turn.cached >= before.prompt
        assert turn.prompt > before.prompt
    with serving(model, "--cache-dir", str(tmp_path)) as (url, process):
        first = say(url, messages, "and after all that?")
        second = say(url, messages, "and once more?")
        end(process)
    assert first.cached > turns[-1].prompt - PAGE
    assert second.cached >= first.prompt


def test_a_server_that_was_killed_while_it_saved_starts_with_what_was_saved_before(
    model: Path, tmp_path: Path
) -> None:
    options = ("--cache-dir", str(tmp_path))
    text = "a long story about nothing. " * 6
    with serving(model, *options) as (url, process):
        first = say(url, [], text)
        end(process)
    with serving(model, *options, program=(sys.executable, "-c", KILLED)) as (url, process):
        say(url, [], f"another one. {text}")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == -signal.SIGKILL
    with serving(model, *options) as (url, process):
        assert say(url, [], text) == Turn(first.prompt, first.prompt - 1)
        end(process)
