"""Limits of containers are kept, under both versions of control groups."""

from __future__ import annotations

import pytest

from maglio import cgroup, machine

UNLIMITED_V1 = str(0x7FFF_FFFF_FFFF_F000)


def root(tmp_path, group, files):
    """A file system that has only what the kernel says of groups."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(group)
    for name, text in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return tmp_path


V2 = "0::/user/job\n"
V1 = "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n1:name=systemd:/docker/x\n"


@pytest.mark.parametrize(
    ("group", "files", "cores"),
    [
        (V2, {"user/job/cpu.max": "150000 100000"}, 2),
        (V2, {"user/job/cpu.max": "10000 100000"}, 1),
        (V2, {"user/job/cpu.max": "max 100000"}, None),
        (V2, {"user/cpu.max": "300000 100000", "user/job/cpu.max": "max 100000"}, 3),
        (V2, {"user/cpu.max": "100000 100000", "user/job/cpu.max": "400000 100000"}, 1),
        (V2, {"cpu.max": "200000 100000"}, 2),
        (V2, {"user/job/cpu.max": "nonsense"}, None),
        (V2, {"user/job/cpu.max": "100000 0"}, None),
        (V2, {}, None),
        ("", {"cpu.max": "100000 100000"}, None),
        (
            V1,
            {
                "cpu,cpuacct/docker/x/cpu.cfs_quota_us": "250000",
                "cpu,cpuacct/docker/x/cpu.cfs_period_us": "100000",
            },
            3,
        ),
        (V1, {"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "50000"}, 1),
        (V1, {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "50000"}, None),
    ],
)
def test_quotas_are_cores_rounded_up(tmp_path, group, files, cores):
    assert cgroup.cores(root(tmp_path, group, files)) == cores


@pytest.mark.parametrize(
    ("group", "files", "left"),
    [
        (V2, {"user/job/memory.max": "1000", "user/job/memory.current": "400"}, 600),
        (V2, {"user/job/memory.max": "1000", "user/job/memory.current": "1200"}, 0),
        (V2, {"user/job/memory.max": "max", "user/job/memory.current": "400"}, None),
        (
            V2,
            {
                "user/memory.max": "2000",
                "user/memory.current": "1900",
                "user/job/memory.max": "1000",
                "user/job/memory.current": "400",
            },
            100,
        ),
        (
            V2,
            {
                "memory.max": "1000",
                "memory.current": "900",
                "memory.stat": "anon 500\ninactive_file 300\nactive_file 100",
            },
            400,
        ),
        (V2, {}, None),
        (
            V1,
            {
                "memory/docker/x/memory.limit_in_bytes": "5000",
                "memory/docker/x/memory.usage_in_bytes": "3000",
                "memory/docker/x/memory.stat": "inactive_file 1\ntotal_inactive_file 500",
            },
            2500,
        ),
        (
            V1,
            {
                "memory/memory.limit_in_bytes": UNLIMITED_V1,
                "memory/memory.usage_in_bytes": "3000",
            },
            None,
        ),
    ],
)
def test_memory_is_what_the_tightest_group_leaves(tmp_path, group, files, left):
    assert cgroup.available_memory(root(tmp_path, group, files)) == left


def test_a_path_out_of_the_groups_is_not_followed(tmp_path):
    path = root(tmp_path, "0::/../../secret\n", {"../secret/cpu.max": "100000 100000"})
    assert cgroup.cores(path) is None


def test_the_machine_is_no_larger_than_its_group(monkeypatch):
    cores, memory = machine.physical_cores(), machine.available_memory()
    monkeypatch.setattr(cgroup, "cores", lambda: 1)
    monkeypatch.setattr(cgroup, "available_memory", lambda: 1000)
    assert (machine.physical_cores(), machine.available_memory()) == (1, 1000)
    monkeypatch.setattr(cgroup, "cores", lambda: 10**6)
    monkeypatch.setattr(cgroup, "available_memory", lambda: 1 << 62)
    assert machine.physical_cores() >= cores
    assert machine.available_memory() >= memory // 2
