"""What this machine has, as far as we may use it, and how fast it is.

Boundary: asks the system and measures for about a second; knows no model.
"""

from __future__ import annotations

import os
import platform
import statistics
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import maglio
from maglio import _core, cgroup, machine
from maglio.engine.registry import engine_names
from maglio.machine_speed import BUFFER_BYTES, MachineSpeed

_PACKAGES = ("numpy", "tokenizers", "llguidance", "huggingface_hub", "torch", "transformers")
_REPETITIONS = 3
_SMALLEST_BUFFER = 64 << 20
_MAX_LINE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """The machine.

    Attributes:
        processor: its name, as the system says it.
        architecture: such as ``x86_64``.
        isas: instruction sets that can be used, the best first,
        isa: and the one that is.
        processors: those that the system has, as it counts them,
        cores: and the cores of these that this process may use.
        cgroup_cores: processors that control groups leave; ``None`` without a limit.
        memory: bytes that can be allocated; ``None`` where the system does not say.
        cgroup_memory: bytes that control groups leave; ``None`` without a limit.
        load: programs that wanted to run during the last minute, on average.
        memory_rate: bytes read per second on all cores; ``None`` if it was not measured.
        product_rate: products of bytes per second, added to sums; ``None`` if it was not measured
            or it is not known how this processor does them best.
        not_measured: why not; empty if it was.
        versions: of the system, of Python and of packages that compute.
        engines: those that are installed.
    """

    processor: str
    architecture: str
    isas: tuple[str, ...]
    isa: str
    processors: int
    cores: int
    cgroup_cores: int | None
    memory: int | None
    cgroup_memory: int | None
    load: float | None
    memory_rate: float | None
    product_rate: float | None
    not_measured: str
    versions: dict[str, str]
    engines: tuple[str, ...]


def machine_facts() -> MachineFacts:
    """Ask and measure.

    Raises:
        InvalidArgumentError: ``MAGLIO_ISA`` names an instruction set that cannot be used.
    """
    cores, memory, load = machine.physical_cores(), machine.available_memory(), _load()
    memory_rate, product_rate, problem = _rates(cores, memory)
    return MachineFacts(
        processor=_processor(),
        architecture=platform.machine(),
        isas=tuple(_core.isa_names()),
        isa=machine.choose_isa(),
        processors=os.cpu_count() or 1,
        cores=cores,
        cgroup_cores=cgroup.cores(),
        memory=memory,
        cgroup_memory=cgroup.available_memory(),
        load=load,
        memory_rate=memory_rate,
        product_rate=product_rate,
        not_measured=problem,
        versions=_versions(),
        engines=tuple(engine_names()),
    )


def _rates(cores: int, memory: int | None) -> tuple[float | None, float | None, str]:
    """Medians of a few measurements, in bytes and products per second."""
    buffer = BUFFER_BYTES if memory is None else min(BUFFER_BYTES, memory // 4)
    if buffer < _SMALLEST_BUFFER:
        return None, None, "there is too little memory"
    try:
        speed = MachineSpeed(cores)
    except RuntimeError as error:
        return None, None, str(error).partition("\n")[0][:_MAX_LINE]
    rates = [speed.measure(bytes_read=buffer) for _ in range(_REPETITIONS)]
    products = statistics.median(rate.multiply_adds for rate in rates)
    return statistics.median(rate.memory for rate in rates), products or None, ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def _versions() -> dict[str, str]:
    own = {
        "maglio": maglio.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
    }
    versions = {package: _version(package) for package in _PACKAGES}
    return own | {package: version for package, version in versions.items() if version}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
