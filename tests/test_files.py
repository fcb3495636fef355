"""Writing replaces whole files and nothing else; reading never waits and always ends."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from maglio.files import read_regular, write_atomic

AS_ROOT = os.geteuid() == 0


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def fifo(path):
    os.mkfifo(path)


def bound_socket(path):
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


def folder(path):
    path.mkdir()


SPECIAL = {"named pipe": fifo, "socket": bound_socket, "folder": folder}


def test_a_new_file_is_private_and_an_old_one_keeps_its_mode(tmp_path):
    path = tmp_path / "a"
    write_atomic(path, b"one")
    assert mode(path) == 0o600
    path.chmod(0o664)
    write_atomic(path, b"two")
    assert (mode(path), path.read_bytes()) == (0o664, b"two")
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.skipif(not AS_ROOT, reason="only root can give files away")
def test_an_old_file_keeps_its_owner(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"one")
    os.chown(path, 12345, 54321)
    write_atomic(path, b"two")
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 54321)


@pytest.mark.skipif(AS_ROOT, reason="root can write everywhere")
def test_a_read_only_file_is_left_alone(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"one")
    path.chmod(0o400)
    with pytest.raises(OSError, match="read-only"):
        write_atomic(path, b"two")


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_and_its_target_is_written(tmp_path, exists):
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "target", tmp_path / "link"
    if exists:
        target.write_bytes(b"one")
    link.symlink_to(Path("elsewhere", "target"))
    write_atomic(link, b"two")
    assert link.is_symlink()
    assert target.read_bytes() == b"two"


def test_links_in_a_circle_are_an_error(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        write_atomic(tmp_path / "a", b"")
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize(
    "use", [lambda path: write_atomic(path, b"x"), lambda p: read_regular(p, 9)]
)
@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_not_a_regular_file_is_refused_and_stays(tmp_path, kind, use):
    path = tmp_path / "a"
    SPECIAL[kind](path)
    before = path.stat()
    with pytest.raises(OSError, match=f"it is a {kind}"):
        use(path)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(OSError, match=f"it is a {kind}"):
        use(tmp_path / "link")
    assert path.stat() == before


def test_devices_are_refused():
    with pytest.raises(OSError, match="it is a device"):
        read_regular(Path("/dev/zero"), 10)
    with pytest.raises(OSError, match="it is a device"):
        write_atomic(Path("/dev/full"), b"x")


@pytest.mark.parametrize(
    "use", [lambda path: write_atomic(path, b"x"), lambda p: read_regular(p, 9)]
)
@pytest.mark.parametrize(
    ("name", "says"), [("a\0b", "NUL"), ("n" * 300, "too long"), ("missing/file", "No such")]
)
def test_impossible_paths_are_one_kind_of_error(tmp_path, name, says, use):
    with pytest.raises(OSError, match=says):
        use(tmp_path / name)


def test_a_file_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes"):
        read_regular(path, 4)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
@pytest.mark.parametrize("to", ["pipe", "file"])
def test_standard_output_is_written_to_as_it_is(tmp_path, name, to):
    code = (
        "import os, sys; from pathlib import Path; from maglio.files import write_atomic\n"
        "os.write(1, b'before '); write_atomic(Path(sys.argv[1]), b'now '); os.write(1, b'after')"
    )
    out = tmp_path / "out"
    with out.open("wb") as file:
        run = subprocess.run(
            [sys.executable, "-c", code, name],
            stdout=file if to == "file" else subprocess.PIPE,
            check=True,
        )
    assert (out.read_bytes() if to == "file" else run.stdout) == b"before now after"


def test_the_null_device_stays_what_it_is():
    write_atomic(Path(os.devnull), b"x")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_what_killed_writes_left_is_removed_when_it_is_old(tmp_path):
    for name, age in {".maglio-tmp-old": 7200, ".maglio-tmp-new": 60, "mine-old": 7200}.items():
        (tmp_path / name).write_bytes(b"")
        at = (tmp_path / name).stat().st_mtime - age
        os.utime(tmp_path / name, (at, at))
    write_atomic(tmp_path / "a", b"x")
    assert sorted(os.listdir(tmp_path)) == [".maglio-tmp-new", "a", "mine-old"]


def test_a_write_that_fails_changes_and_leaves_nothing(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"one")

    def fail(*_):
        raise OSError("the disk is gone")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="gone"):
        write_atomic(path, b"two")
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"one", ["a"])
