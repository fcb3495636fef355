"""How fast this machine reads memory, and multiplies and adds bytes: what an engine cannot pass.

The loops are in machine_speed.cpp, which is compiled for this processor, once per run. So this
needs a C++ compiler; everything else of the package does not.

Boundary: measures; knows no engine.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".cpp")
BUFFER_BYTES = 1 << 30
STEPS = 1 << 27
"""Vectors of products on each thread: some tens of milliseconds."""
TRIES = 3


@dataclass(frozen=True, slots=True)
class Rates:
    """What was measured at one moment.

    Attributes:
        memory: bytes read per second.
        multiply_adds: products of bytes, added to sums, per second; 0 where it is not known how
            this processor does them best.
    """

    memory: float
    multiply_adds: float


class MachineSpeed:
    """Measures this machine on some threads.

    Args:
        threads: so many read, or multiply, at the same time.

    Raises:
        RuntimeError: there is no C++ compiler, or it refuses.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder) / "machine_speed.so"
            self._compile(library)
            self._library = ctypes.CDLL(str(library))
        for name in ("memory_rate", "multiply_add_rate"):
            getattr(self._library, name).restype = ctypes.c_double

    def measure(self, *, bytes_read: int = BUFFER_BYTES, steps: int = STEPS) -> Rates:
        """Measure both: the best of a few, since a limit is what nothing else holds up."""
        read, multiply = self._library.memory_rate, self._library.multiply_add_rate
        memory = [read(self._threads, ctypes.c_size_t(bytes_read)) for _ in range(TRIES)]
        products = [multiply(self._threads, ctypes.c_size_t(steps)) for _ in range(TRIES)]
        return Rates(max(memory), max(products))

    def _compile(self, library: Path) -> None:
        compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
        if compiler is None:
            raise RuntimeError("there is no C++ compiler, which measuring the machine needs")
        options = ["-O3", "-march=native", "-std=c++17", "-shared", "-fPIC", "-pthread"]
        command = [compiler, *options, str(SOURCE), "-o", str(library)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{compiler} cannot compile {SOURCE.name}: {done.stderr.strip()}")
