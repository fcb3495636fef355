"""``maglio batch`` as a process that something happens to when so many results are written.

Boundary: starts processes; the signal comes from inside, so that nothing has to be waited for.

python -m support.batch_process SIGNAL COUNT ARGUMENTS...
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import maglio.cli
from maglio.server.batch.results import ResultFile

TESTS = Path(__file__).resolve().parent.parent


def run_until(
    number: signal.Signals, count: int, *arguments: str | Path
) -> subprocess.CompletedProcess[str]:
    """Run it; after ``count`` results there comes a signal. SIGKILL comes in the middle of one."""
    words = [str(word) for word in (int(number), count, *arguments)]
    return subprocess.run(
        [sys.executable, "-m", "support.batch_process", *words],
        cwd=TESTS,
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )


def _interrupt(number: signal.Signals, count: int) -> None:
    write = ResultFile.write
    written = 0

    def interrupted(self: ResultFile, custom_id: str, line: bytes, *, failed: bool) -> None:
        nonlocal written
        if written == count:
            if number == signal.SIGKILL:
                os.write(self._file.fileno(), line[: len(line) // 2])
            os.kill(os.getpid(), number)
        written += 1
        write(self, custom_id, line, failed=failed)

    ResultFile.write = interrupted


if __name__ == "__main__":
    _interrupt(signal.Signals(int(sys.argv[1])), int(sys.argv[2]))
    sys.argv = ["maglio", *sys.argv[3:]]
    maglio.cli.main()
