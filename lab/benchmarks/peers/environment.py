"""Facts about the host that figures depend on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from emulator.host.core_wait import CoreTicks, steal_fraction

PACKAGES = ("charkha", "numpy", "pyzmq", "uvloop")
COMMANDS = {"iperf3": ("iperf3", "--version"), "Open MPI": ("mpirun", "--version")}
KERNEL_LIMITS = ("net/core/rmem_max", "net/core/wmem_max")


def environment() -> dict[str, Any]:
    """Kernel, processors, memory, limits and versions; the version of Gloo's torch stands with its readings."""
    return {
        "kernel": platform.release(),
        "cpus": len(os.sched_getaffinity(0)),
        "cpu_model": _field("/proc/cpuinfo", "model name"),
        "memory": _field("/proc/meminfo", "MemTotal"),
        "python": platform.python_version(),
        "limits": {name.replace("/", "."): _read(f"/proc/sys/{name}") for name in KERNEL_LIMITS},
        "versions": {name: _version(name) for name in PACKAGES} | {n: _says(*argv) for n, argv in COMMANDS.items()},
    }


@dataclass(frozen=True, slots=True)
class Load:
    """What the machine was busy with around a measurement.

    Attributes:
        before, after: load average of the last minute: how many processes wanted to run, the measured ones and others.
        stolen: share (0 to 1) of the cores' time in between that the host gave to other virtual machines; None where
            the kernel does not say.
    """

    before: float
    after: float
    stolen: float | None


@dataclass(frozen=True, slots=True)
class Watch:
    """Begins with a measurement, ends with its load."""

    load_average: float
    ticks: CoreTicks | None

    @classmethod
    def begin(cls) -> Self:
        """Look at the machine before."""
        return cls(os.getloadavg()[0], CoreTicks.now())

    def end(self) -> Load:
        """Look again after."""
        return Load(self.load_average, os.getloadavg()[0], steal_fraction(self.ticks, CoreTicks.now()))


def _field(path: str, name: str) -> str | None:
    for line in (_read(path) or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _says(*argv: str) -> str | None:
    if shutil.which(argv[0]) is None:
        return None
    try:
        said = subprocess.run(argv, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return next(iter(said.stdout.splitlines()), None)
