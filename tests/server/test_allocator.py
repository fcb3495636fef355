"""Large blocks of memory that are freed are given back."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

PROGRAM = """
import sys
from pathlib import Path
from maglio.server.allocator import return_large_blocks

if sys.argv[1] == "returning":
    return_large_blocks()

def resident():
    [line] = [x for x in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in x]
    return int(line.split()[1]) << 10

bytearray(16 << 20)  # when it is freed, glibc takes the next one from its heap
before = resident()
body = bytearray(b"x" * 1000) * (12 << 10)
above = [bytes(5000) for _ in range(200)]
del body
print(resident() - before)
"""


def left_over(how: str) -> int:
    """Bytes that stay in memory after a block of 12 MB was freed."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="not glibc")
def test_a_long_body_does_not_stay_in_memory() -> None:
    assert left_over("as it is") > 10 << 20
    assert left_over("returning") < 3 << 20
