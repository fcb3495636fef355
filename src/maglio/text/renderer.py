"""Renders templates that are not trusted in a process of its own, which is kept for the next turn.

Boundary: starts, feeds, limits and ends the process; what it does with a request is
:mod:`maglio.text.renderer_process`. What it answers is read as JSON and checked, since by then it
may be under the template's control.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import threading
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

from maglio.text.rendering import RenderError, Rendering, RenderRequest
from maglio.text.wire import LENGTH, packed, unpacked

MEMORY = 512 << 20
"""Bytes of address space for a rendering, before what its output may take."""
SECONDS = 5.0
"""Time for a rendering, before what its output may take."""
_MEMORY_PER_CHARACTER = 64
_SECONDS_PER_CHARACTER = 1e-6
_SECONDS_PER_PAIR = 4e-5  # Gemma 4's looks back through all messages at each: 4e-6 per pair
_MOST_SECONDS = 60.0  # others wait for it: enough for Gemma 4's with 3,800 messages
_START_SECONDS = 60.0
_BYTES_PER_CHARACTER = 6  # the most that JSON makes of one character

# The process loads three of our modules and none of the library, which would take half a second.
_START = """
import json, sys, types
sys.path[:] = json.loads(sys.argv[1])
for name, folder in zip(("maglio", "maglio.text"), sys.argv[2:]):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folder]
from maglio.text.renderer_process import main
main()
"""


class Renderer:
    """A renderer process, started when it is first needed; safe to use from several threads.

    Args:
        memory: bytes of address space for a rendering without output.
        seconds: time for a rendering without output.
    """

    def __init__(self, *, memory: int = MEMORY, seconds: float = SECONDS) -> None:
        self._memory = memory
        self._seconds = seconds
        self._lock = threading.Lock()
        self._process: _Process | None = None

    def render(self, request: RenderRequest) -> Rendering:
        """Render within limits on memory, time and output that grow with the conversation.

        Raises:
            RenderError: the rendering failed, went over a limit, or its process could not start.
        """
        seconds = self._seconds + _more_seconds(request)
        memory = self._memory + _MEMORY_PER_CHARACTER * request.max_output
        message = {field.name: getattr(request, field.name) for field in fields(request)}
        message |= {"memory": memory, "seconds": seconds}
        limit = 2 * _BYTES_PER_CHARACTER * request.max_output + (1 << 16)
        with self._lock:
            process = self._running()
            try:
                reply = process.exchange(message, seconds, limit)
            except BaseException:  # an interrupt too: what it would answer later is not wanted
                self._end()
                raise
            if reply.get("last") or not _is_reply(reply):
                self._end()
        return _rendering_of(reply, memory)

    def close(self) -> None:
        """End the process; the next rendering starts another."""
        with self._lock:
            self._end()

    def forget(self) -> None:
        """Leave the process to the parent of this fork; the next rendering starts another."""
        process, self._process = self._process, None
        self._lock = threading.Lock()  # another thread may have held it
        if process is not None:
            process.abandon()

    def _running(self) -> _Process:
        if self._process is not None and not self._process.is_alive:
            self._end()
        if self._process is None:
            self._process = _Process()
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end()


def _more_seconds(request: RenderRequest) -> float:
    """Time for what a rendering reads and writes."""
    messages = request.values.get("messages")
    pairs = len(messages) ** 2 if isinstance(messages, list) else 0
    seconds = _SECONDS_PER_CHARACTER * request.max_output + _SECONDS_PER_PAIR * pairs
    return min(seconds, _MOST_SECONDS)


class _Process:
    """The process and the pipes to it."""

    def __init__(self) -> None:
        folder = Path(__file__).parent
        paths = [json.dumps([str(path) for path in sys.path]), str(folder.parent), str(folder)]
        try:
            self._child = subprocess.Popen(
                [sys.executable or "", "-I", "-S", "-c", _START, *paths],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,  # a terminal's Ctrl-C is not for it
            )
        except OSError as error:
            raise RenderError(
                f"cannot be rendered: its process does not start: {error.strerror}"
            ) from error
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._in, self._out = self._child.stdin, self._child.stdout
        os.set_blocking(self._in.fileno(), False)
        os.set_blocking(self._out.fileno(), False)
        try:
            self._receive(time.monotonic() + _START_SECONDS, 1 << 10)
        except TimeoutError:
            self.end()
            raise RenderError(
                f"cannot be rendered: its process took more than {_START_SECONDS:.0f} seconds to "
                "start; try again when the machine is less busy"
            ) from None
        except BaseException:
            self.end()
            raise

    @property
    def is_alive(self) -> bool:
        return self._child.poll() is None

    def exchange(self, message: dict[str, Any], seconds: float, limit: int) -> dict[str, Any]:
        """Send a request and return the reply, of at most ``limit`` bytes."""
        deadline = time.monotonic() + seconds
        try:
            self._send(packed(message), deadline)
            return self._receive(deadline, limit)
        except TimeoutError:
            raise RenderError(f"was stopped: it ran for more than {seconds:.1f} seconds") from None

    def end(self) -> None:
        self._child.kill()
        self._child.wait()
        self._in.close()
        self._out.close()

    def abandon(self) -> None:
        self._in.close()
        self._out.close()
        self._child.returncode = 0  # it is not ours to wait for

    def _send(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            _await(self._in.fileno(), select.POLLOUT, deadline)
            try:
                view = view[os.write(self._in.fileno(), view) :]
            except BrokenPipeError:
                raise self._death() from None

    def _receive(self, deadline: float, limit: int) -> dict[str, Any]:
        (length,) = LENGTH.unpack(self._read(LENGTH.size, deadline))
        if length > limit:
            raise RenderError("was stopped: it wrote too much")
        return unpacked(self._read(length, deadline))

    def _read(self, length: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < length:
            _await(self._out.fileno(), select.POLLIN, deadline)
            part = os.read(self._out.fileno(), min(length - len(data), 1 << 20))
            if not part:
                raise self._death()
            data += part
        return bytes(data)

    def _death(self) -> RenderError:
        try:
            status = self._child.wait(1)
        except subprocess.TimeoutExpired:
            return RenderError("was stopped: its process closed its pipe")
        return RenderError(f"was stopped: its process ended with status {status}")


def _await(file: int, event: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(file, event)
    while (left := deadline - time.monotonic()) > 0:
        if poll.poll(left * 1000):
            return
    raise TimeoutError


def _is_reply(reply: dict[str, Any]) -> bool:
    plain, marked = reply.get("plain"), reply.get("marked")
    return isinstance(reply.get("problem"), str) or (
        isinstance(plain, str) and (marked is None or isinstance(marked, str))
    )


def _rendering_of(reply: dict[str, Any], memory: int) -> Rendering:
    if not _is_reply(reply):
        raise RenderError("was stopped: its process gave no rendering")
    if "problem" in reply:
        more = f" (limit {memory >> 20} MiB)" if reply.get("last") else ""
        raise RenderError(reply["problem"] + more)
    return Rendering(reply["plain"], reply.get("marked"))


shared = Renderer()
"""The renderer of this process: one serves all templates."""

atexit.register(shared.close)
os.register_at_fork(after_in_child=shared.forget)
