"""Which monotonic clock this process reads: two that say the same read the same one."""

from __future__ import annotations

from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TIME_NAMESPACE = Path("/proc/self/ns/time")


def clock_id() -> str:
    """The boot of the kernel and the time namespace, which shifts CLOCK_MONOTONIC; "" where the kernel does not say."""
    try:
        boot = _BOOT_ID.read_text().strip()
    except OSError:
        return ""
    try:
        return f"{boot}/{_TIME_NAMESPACE.readlink()}"
    except OSError:
        return boot  # a kernel without time namespaces
