"""`make` sets itself up, and says in one line what is missing. Runs with stand-ins for Python."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")

STAND_IN = """#!/bin/sh
# A Python of version {version}; its environments have a pip that says: {says}
case "$*" in
    *"sys.exit(sys.version_info"*) exit {old} ;;
    *ensurepip*) exit {no_venv} ;;
    *base_prefix*) echo "{version} /usr" ;;
    --version) echo "Python {version}" ;;
    "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
    "-m pip "*) echo "$*" >>pip-calls; {pip} ;;
esac
"""


def stand_in(path, version="3.12.1", *, no_venv=0, says="", fails=False):
    minor = int(version.split(".")[1])
    pip = f"echo '{says}' >&2; exit 1" if fails else "exit 0"
    path.write_text(
        STAND_IN.format(version=version, old=int(minor < 10), no_venv=no_venv, says=says, pip=pip)
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def checkout(tmp_path):
    for name in ("Makefile", "pyproject.toml", "CMakeLists.txt"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("make_environment.sh", "install_packages.sh"):
        (tmp_path / "scripts").mkdir(exist_ok=True)
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts")
    (tmp_path / "csrc").mkdir()
    return tmp_path


def make(checkout, *arguments):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "PYTHON"))}
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_every_phony_target_has_a_rule_and_every_command_is_phony():
    text = (ROOT / "Makefile").read_text()
    phony = set(" ".join(re.findall(r"^\.PHONY:(.*)$", text, re.MULTILINE)).split())
    rules = set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))
    assert phony == rules


@pytest.mark.parametrize(
    ("python", "says"),
    [
        ({"version": "3.9.2"}, "is Python 3.9.2; install Python 3.10 or later"),
        ({"no_venv": 1}, "apt install python3-venv"),
        ({"fails": True, "says": "NewConnectionError: no"}, "connect to the network"),
        ({"fails": True, "says": "No CMAKE_CXX_COMPILER could be found."}, "apt install g++"),
        ({"fails": True, "says": "Could NOT find Python"}, "apt install python3-dev"),
        (None, "install Python 3.10 or later"),
    ],
)
def test_what_is_missing_is_named_in_one_line(checkout, python, says):
    path = checkout / "python"
    if python is not None:
        stand_in(path, **python)
    run = make(checkout, "run", f"PYTHON={path}")
    assert run.returncode != 0
    lines = [line for line in run.stderr.splitlines() if not line.startswith("make")]
    assert len(lines) == 1
    assert says in lines[0]


def test_another_interpreter_makes_the_environment_anew(checkout):
    old, new = stand_in(checkout / "a", "3.11.7"), stand_in(checkout / "b", "3.12.1")
    stamp = checkout / ".venv" / ".interpreter"
    for python, version in ((old, "3.11.7"), (new, "3.12.1")):
        assert make(checkout, ".venv/.installed", f"PYTHON={python}").returncode == 0
        assert stamp.read_text().startswith(version)
        assert (checkout / ".venv" / ".installed").exists()
    (checkout / "pip-calls").unlink()
    for arguments in ((f"PYTHON={new}",), ()):  # named again, or not named at all
        assert make(checkout, ".venv/.installed", *arguments).returncode == 0
        assert stamp.read_text().startswith("3.12.1")
        assert not (checkout / "pip-calls").exists()  # nothing was done


def test_a_build_after_a_failed_one_looks_for_a_compiler_again(checkout):
    python = stand_in(checkout / "python")
    assert make(checkout, ".venv/.building", f"PYTHON={python}").returncode == 0
    inner = checkout / ".venv" / "bin" / "python"
    stand_in(inner, fails=True, says="No CMAKE_CXX_COMPILER could be found.")
    assert make(checkout, ".venv/.installed").returncode != 0
    cache = checkout / "build" / "cp312-x" / "CMakeCache.txt"
    cache.parent.mkdir()
    cache.write_text("stale")
    (cache.parent / "object.o").write_text("kept")
    stand_in(inner)
    assert make(checkout, ".venv/.installed").returncode == 0
    assert not cache.exists()
    assert (cache.parent / "object.o").exists()
    cache.write_text("sound")
    (checkout / "CMakeLists.txt").touch()
    assert make(checkout, ".venv/.installed").returncode == 0
    assert cache.exists()


def test_an_environment_whose_interpreter_is_gone_is_made_anew(checkout):
    python = stand_in(checkout / "python")
    assert make(checkout, ".venv/.building", f"PYTHON={python}").returncode == 0
    (checkout / ".venv" / "bin" / "python").write_text("#!/bin/sh\nexit 127\n")
    os.symlink(python, checkout / "python3")
    before = os.environ["PATH"]
    try:
        os.environ["PATH"] = f"{checkout}:{before}"
        assert make(checkout, ".venv/.building").returncode == 0
    finally:
        os.environ["PATH"] = before
    assert (checkout / ".venv" / ".building").exists()


def test_the_stand_ins_answer_as_python_does():
    said = subprocess.run(
        [sys.executable, "-c", "import sys; print(sys.version.split()[0], sys.base_prefix)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.fullmatch(r"3\.\d+\.\S+ /.*\n", said.stdout)
