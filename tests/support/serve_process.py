"""`maglio serve` as a process, on a model that has next to no weights.

Boundary: starts and ends it; knows no test.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from support.chat_model import TEMPLATE, vocabulary
from support.gguf_bytes import RawGguf
from support.models import TINY, write_model

MAGLIO = (sys.executable, "-m", "maglio")


def write_served_model(path: Path) -> Path:
    """A file of a model that can chat, with a long context."""
    write_model(path, "llama", replace(TINY["llama"], n_ctx=1 << 16), "Q8_0", seed=3)
    raw = RawGguf.read(path)
    for key, value in {**vocabulary(), "tokenizer.chat_template": TEMPLATE}.items():
        raw.set(key, value)
    path.write_bytes(raw.to_bytes())
    return path


@contextmanager
def serving(
    model: Path, *options: str, program: Sequence[str] = MAGLIO, **environment: str
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start it on a free port; yields the address and the process."""
    command = [*program, "serve", "-m", str(model), "--port", "0", *options]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )
    assert process.stderr is not None
    try:
        first, curl = process.stderr.readline(), process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", first)
        assert found is not None, first + process.stderr.read()
        assert f"curl {found[0]}/v1/chat/completions" in curl
        yield found[0], process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for its end: the status, and the rest of what it wrote to standard error."""
    assert process.stderr is not None
    return process.wait(60), process.stderr.read()
