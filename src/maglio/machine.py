"""What the engine needs to know of the machine: processors and memory, as far as we may use them.

Boundary: joins what the kernel says of the machine with what control groups leave of it.
"""

from __future__ import annotations

import os
from pathlib import Path

from maglio import _core, cgroup
from maglio.errors import InvalidArgumentError


def physical_cores() -> int:
    """Number of physical cores this process may run on, at least 1; quotas of containers count."""
    cores, quota = _physical_cores(), cgroup.cores()
    return cores if quota is None else min(cores, quota)


def available_memory() -> int | None:
    """Bytes that can be allocated without swapping, or ``None`` where the system does not say.

    Limits of containers count.
    """
    known = [n for n in (_available_memory(), cgroup.available_memory()) if n is not None]
    return min(known, default=None)


def _physical_cores() -> int:
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    if allowed is None:
        return max(1, os.cpu_count() or 1)
    cores = set()
    for cpu in allowed:
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        try:
            cores.add(siblings.read_text())
        except OSError:
            cores.add(str(cpu))
    return max(1, len(cores))


def _available_memory() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def choose_isa() -> str:
    """Instruction set to run: ``MAGLIO_ISA`` when it is set, else the best there is.

    Raises:
        InvalidArgumentError: ``MAGLIO_ISA`` names one that this machine cannot run.
    """
    names: list[str] = _core.isa_names()
    wanted = os.environ.get("MAGLIO_ISA", "")
    if not wanted:
        return names[0]
    if wanted not in names:
        raise InvalidArgumentError(
            f"MAGLIO_ISA is {wanted!r}; this machine can run {', '.join(names)}"
        )
    return wanted
