"""How the command line begins: to be interrupted at any moment, and with a light import."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import maglio

SCRIPT = Path(sysconfig.get_path("scripts")) / "maglio"
INTERRUPTED = """
import os, signal
os.kill(os.getpid(), signal.SIGINT)
for _ in range(1000):
    pass  # a signal is seen between two instructions
raise ImportError("nobody left")
"""


@pytest.mark.parametrize("command", [[sys.executable, "-m", "maglio"], [str(SCRIPT)]])
@pytest.mark.parametrize("module", ["typer", "numpy", "tokenizers", "jinja2"])
def test_an_interrupt_while_modules_are_imported_ends_in_silence(tmp_path, command, module):
    (tmp_path / f"{module}.py").write_text(INTERRUPTED)
    run = subprocess.run(
        [*command, "--version"],
        capture_output=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )
    assert run.returncode == 130
    assert run.stderr == b""


def test_the_package_can_be_run():
    run = subprocess.run([sys.executable, "-m", "maglio", "--version"], capture_output=True)
    assert run.stdout.decode() == f"maglio {maglio.__version__}\n"


def test_a_background_job_that_ignores_interrupts_goes_on_ignoring_them():
    ask = "from maglio.cli.interrupts import *; interrupt_once(); end_at_next_interrupt()\n"
    ask += "with Interrupts() as i: i.arm()\nimport os; os.kill(os.getpid(), 2); print('here')"
    run = subprocess.run(
        [sys.executable, "-c", ask],
        capture_output=True,
        check=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert run.stdout == b"here\n"


def test_importing_the_package_imports_what_is_asked_for_and_no_more():
    ask = "import sys, maglio; print('numpy' in sys.modules, len(dir(maglio)) > 20); maglio.load"
    run = subprocess.run([sys.executable, "-c", ask], capture_output=True, check=True)
    assert run.stdout == b"False True\n"
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        maglio.nothing_of_the_kind  # noqa: B018
