"""`maglio serve` as a process of its own: its address, and what it holds."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from types import TracebackType


@dataclass(frozen=True, slots=True)
class Held:
    """What a process holds of the machine."""

    memory: int  # resident bytes
    files: int  # open file descriptors
    threads: int


class ServerProcess:
    """A server on a free port. Leaving ``with`` kills it if it still runs.

    Args:
        options: of ``maglio serve``; the model is among them.

    Attributes:
        host: where it listens,
        port: and at which port.
        last: the last lines that it wrote to standard error.
    """

    def __init__(self, options: Sequence[str]) -> None:
        command = [sys.executable, "-m", "maglio", "serve", "--port", "0", *options]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, errors="replace", env={**os.environ}
        )
        assert self.process.stderr is not None
        first = self.process.stderr.readline()
        found = re.search(r"http://([0-9.]+):(\d+)", first)
        if found is None:
            self.process.kill()
            raise SystemExit(f"the server did not start: {first}{self.process.stderr.read()}")
        self.host, self.port = found[1], int(found[2])
        self.last: deque[str] = deque(maxlen=50)
        Thread(target=self.last.extend, args=(self.process.stderr,), daemon=True).start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://{self.host}:{self.port}"

    def held(self) -> Held:
        """What it holds now."""
        proc = Path("/proc", str(self.process.pid))
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        return Held(
            memory=int(status["VmRSS"].split()[0]) << 10,
            files=len(list((proc / "fd").iterdir())),
            threads=int(status["Threads"]),
        )

    def stop(self, number: int = signal.SIGTERM, *, within: float = 120.0) -> int:
        """Send a signal, and wait for the end; its exit status."""
        self.process.send_signal(number)
        return self.process.wait(within)

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
