"""The process of a contestant: requests come on standard input, answers go to standard output.

Boundary: lines of JSON. What libraries print goes to standard error. The process ends when its
standard input does, so that it never outlives whoever started it.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO

from .message import Contestant, Request, Setup

_MAX_ERROR = 300


def main() -> None:
    """Open the contestant that the arguments name, and answer.

    The arguments are a module, which has ``open_contestant(setup)``, and the setup in JSON.
    """
    module, setup = sys.argv[1:]
    out = _take_stdout()
    lines = _lines_of_stdin()
    try:
        opener = importlib.import_module(module, __package__).open_contestant
        contestant: Contestant = opener(Setup(**json.loads(setup)))
    except Exception as error:  # of whatever library
        _say(out, {"error": _words(error)})
        return
    _say(out, {"ready": True})
    for line in lines:
        try:
            answer = contestant.answer(Request(**json.loads(line)))
            document = dataclasses.asdict(answer)
        except Exception as error:  # of whatever library
            document = {"error": _words(error)}
        _say(out, {**document, "peak_bytes": peak_bytes()})


def peak_bytes() -> int:
    """The most memory that this process held, in bytes."""
    try:
        with open("/proc/self/status", encoding="utf-8", errors="replace") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass
    import resource  # counts what the process was before it became this program, so only here

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10


def _take_stdout() -> BinaryIO:
    """Keep standard output for answers; whatever else is printed goes to standard error."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return out


def _lines_of_stdin() -> Iterator[bytes]:
    # A thread reads, so that the end of the input ends the process in the middle of an answer too.
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin.buffer:
            lines.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield lines.get()


def _say(out: BinaryIO, document: dict[str, Any]) -> None:
    out.write(json.dumps(document).encode() + b"\n")
    out.flush()


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:_MAX_ERROR]
