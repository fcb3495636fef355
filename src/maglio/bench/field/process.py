"""A contestant in a process of its own: it may hang or crash, and is asked again all the same.

Boundary: pipes and time limits. Knows neither engines nor results.
"""

from __future__ import annotations

import dataclasses
import json
import os
import queue
import signal
import subprocess
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from maglio.bench.field.worker.message import Answer, Request, Setup

# The package is found beside this file, also by an interpreter that has no Maglio; nothing else is.
_BOOT = (
    "import sys; sys.path[0] = sys.argv.pop(1); from worker.entry import main; "
    "del sys.path[0]; main()"
)
_MAX_ANSWER = 1 << 26
_MAX_WORDS = 300
_TIME_TO_END_S = 10.0


class ContestantError(Exception):
    """There is no answer; the message says why.

    Attributes:
        ended: whether the process has ended, and another one is needed.
    """

    def __init__(self, message: str, *, ended: bool) -> None:
        super().__init__(message[:_MAX_WORDS])
        self.ended = ended


class ContestantProcess:
    """A running contestant. Leaving ``with`` ends it.

    Args:
        python: the interpreter that runs it.
        module: what opens it: a module of :mod:`maglio.bench.field.worker` with a dot before it, or
            any module of that interpreter.
        setup: what it is opened with.
        limit_s: seconds that opening may take.

    Attributes:
        peak_bytes: the most memory that it has held.

    Raises:
        ContestantError: it could not be opened.
    """

    def __init__(self, python: str, module: str, setup: Setup, *, limit_s: float) -> None:
        options = json.dumps(dataclasses.asdict(setup))
        command = [python, "-c", _BOOT, str(Path(__file__).parent), module, options]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for us alone
            )
        except OSError as error:
            raise ContestantError(f"cannot run {python}: {error.strerror}", ended=True) from error
        self.peak_bytes = 0
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._last_words: deque[str] = deque(maxlen=5)
        self._readers = [
            threading.Thread(target=reader, args=(pipe,), daemon=True)
            for reader, pipe in (
                (self._read_answers, self._process.stdout),
                (self._read_words, self._process.stderr),
            )
        ]
        for thread in self._readers:
            thread.start()
        try:
            opened = self._read(limit_s, "opening it")
            if "error" in opened:
                raise ContestantError(str(opened["error"]), ended=True)
        except BaseException:
            self.close()
            raise

    def ask(self, request: Request, *, limit_s: float) -> Answer:
        """Wait for the answer to a prompt.

        Raises:
            ContestantError: there is none. If the process had to be ended, so it was.
        """
        if self._process.returncode is not None:
            raise self._ended()
        assert self._process.stdin is not None  # as it was made
        try:
            line = json.dumps(dataclasses.asdict(request)).encode() + b"\n"
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except OSError:
            raise self._ended() from None
        document = self._read(limit_s, "the answer")
        self.peak_bytes = max(self.peak_bytes, int(document.pop("peak_bytes", 0)))
        if "error" in document:
            raise ContestantError(str(document["error"]), ended=False)
        return Answer(**document)

    def close(self) -> None:
        """End the process, whatever it does. Does nothing when it has ended."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for thread in self._readers:
            thread.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with suppress(OSError):  # of what could not be written any more
                pipe.close()  # type: ignore[union-attr]  # as it was made

    def __enter__(self) -> ContestantProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _read(self, limit_s: float, what: str) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=limit_s)
        except queue.Empty:
            self.close()
            raise ContestantError(
                f"{what} took more than {limit_s:g} seconds; the process was ended", ended=True
            ) from None
        if not line:
            raise self._ended()
        return dict(json.loads(line))

    def _ended(self) -> ContestantError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_TIME_TO_END_S)
        self.close()
        status = self._process.returncode
        how = f"with status {status}" if status >= 0 else f"by {_signal(-status)}"
        words = f": {self._last_words[-1]}" if self._last_words else ""
        return ContestantError(f"the process ended {how}{words}", ended=True)

    def _read_answers(self, pipe: IO[bytes]) -> None:
        with suppress(ValueError, OSError):
            while line := pipe.readline(_MAX_ANSWER):
                self._answers.put(line)
        self._answers.put(b"")

    def _read_words(self, pipe: IO[bytes]) -> None:
        with suppress(ValueError, OSError):
            while line := pipe.readline(_MAX_WORDS):
                if words := line.decode("utf-8", "replace").strip():
                    self._last_words.append(words)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
