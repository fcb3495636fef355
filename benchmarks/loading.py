"""Time and memory of loading a model file: read and repacked, and mapped from kept weights.

    python benchmarks/loading.py model.gguf --threads 2

The file should be in the page cache: the first round is not shown. Kept weights are written to a
temporary folder.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from maglio.engine.native import NativeEngine
from maglio.gguf import ModelFile

ROUNDS = 4


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        for keep in (False, True):
            for number in range(ROUNDS):
                line = measured(options.model, options.threads, keep)
                if number > 0:
                    print(line, flush=True)


def measured(path: Path, threads: int, keep: bool) -> str:
    """Load once."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is in use
    before = peak()
    file = ModelFile(path)
    began, cpu = time.perf_counter(), time.process_time()
    engine = NativeEngine(file, threads=threads, keep_weights=keep)
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    return (
        f"{'mapped' if keep else 'read'}: {took:.3f} s, {file.size / took / 1e9:.2f} GB/s, "
        f"{file.size / cpu / 1e9:.2f} GB per CPU second; peak {peak() - before:,} bytes for "
        f"{engine.weight_bytes:,} of weights"
    )


def peak() -> int:
    """Most memory that was in use, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise SystemExit("this needs Linux")


if __name__ == "__main__":
    main()
