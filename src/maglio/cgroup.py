"""What control groups leave to this process: containers and services are limited so.

Boundary: reads the kernel's files, of version 1 and 2; decides nothing. Limits of every group from
the process's own up to the root hold together, so the smallest counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_UNLIMITED = 1 << 60  # version 1 says "no limit" with a number near 2^63


def cores(root: Path = Path("/")) -> int | None:
    """Processors that the quotas amount to, at least 1; ``None`` without a quota."""
    quotas = [
        *(_quota_v2(folder) for folder in _folders(root, "")),
        *(_quota_v1(folder) for folder in _folders(root, "cpu")),
    ]
    counts = [max(1, math.ceil(quota)) for quota in quotas if quota is not None]
    return min(counts, default=None)


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes left to allocate, at least 0; ``None`` without a limit.

    Pages of files that nobody used lately count as free: the kernel drops them first.
    """
    left = [
        *(_memory_left(folder, _NAMES_V2) for folder in _folders(root, "")),
        *(_memory_left(folder, _NAMES_V1) for folder in _folders(root, "memory")),
    ]
    return min((n for n in left if n is not None), default=None)


_NAMES_V2 = ("memory.max", "memory.current", "inactive_file")
_NAMES_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """The group of this process and those above; the controller of version 2 has no name.

    In a container the path may be the host's and lead nowhere; the root is the container's then.
    """
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if controller not in names.split(","):
            continue
        mounts = {names, controller} if controller else {""}
        inner = PurePosixPath(path.lstrip("/"))
        for mount in mounts:
            for group in (inner, *inner.parents):
                if ".." not in group.parts:
                    yield root / "sys/fs/cgroup" / mount / group


def _quota_v2(folder: Path) -> float | None:
    quota, _, period = _text(folder / "cpu.max").strip().partition(" ")
    return _ratio(quota, period or "100000")


def _quota_v1(folder: Path) -> float | None:
    quota, period = (_text(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
    return _ratio(quota, period)


def _ratio(quota: str, period: str) -> float | None:
    """Processors; ``None`` where there is no quota ("max", -1) or no file."""
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return None
    return int(quota) / int(period)


def _memory_left(folder: Path, names: tuple[str, str, str]) -> int | None:
    limit, used = (_text(folder / name).strip() for name in names[:2])
    if not limit.isdigit() or not used.isdigit() or int(limit) >= _UNLIMITED:
        return None
    statistics = dict(
        line.split(" ", 1) for line in _text(folder / "memory.stat").splitlines() if " " in line
    )
    droppable = statistics.get(names[2], "0")
    in_use = int(used) - (int(droppable) if droppable.isdigit() else 0)
    return max(0, int(limit) - max(0, in_use))


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeError):
        return ""
