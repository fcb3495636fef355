"""The renderer process: reads requests, renders within limits, and writes what came out.

Boundary: the child's side of :mod:`maglio.text.renderer`, which starts it without the library.
"""

from __future__ import annotations

import math
import resource
import signal
import sys
import time
from typing import Any

from maglio.text.rendering import OutOfMemory, RenderError, RenderRequest, render
from maglio.text.wire import LENGTH, packed, unpacked


def main() -> None:
    """Serve until the other side closes the pipe, or memory ran out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt ends
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    reply: dict[str, Any] = {"ready": True}
    while not reply.get("last"):
        replies.write(packed(reply))
        replies.flush()
        header = requests.read(LENGTH.size)
        if len(header) < LENGTH.size:
            return
        reply = _answer(unpacked(requests.read(*LENGTH.unpack(header))))
    replies.write(packed(reply))
    replies.flush()


def _answer(message: dict[str, Any]) -> dict[str, Any]:
    try:
        _limit(message.pop("memory"), message.pop("seconds"))
        rendering = render(RenderRequest(**{**message, "pieces": tuple(message["pieces"])}))
        return {"plain": rendering.plain, "marked": rendering.marked}
    except OutOfMemory as error:
        return {"problem": str(error), "last": True}  # what is left of it cannot be relied on
    except RenderError as error:
        return {"problem": str(error)}
    finally:
        _unlimit()  # the next request may be larger than what this one may take


def _limit(memory: int, seconds: float) -> None:
    _set_soft(resource.RLIMIT_AS, memory)
    _set_soft(resource.RLIMIT_CPU, math.ceil(time.process_time() + seconds) + 1)


def _unlimit() -> None:
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_CPU):
        _set_soft(kind, resource.RLIM_INFINITY)


def _set_soft(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        value = hard if value == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, hard))
