"""Identity of the monotonic clock of this process: processes with equal ids read the same clock."""

from __future__ import annotations

from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TIME_NAMESPACE = Path("/proc/self/ns/time")


def clock_id() -> str:
    """The boot id and the time namespace, which shifts CLOCK_MONOTONIC; "" if the kernel does not provide them."""
    try:
        boot = _BOOT_ID.read_text().strip()
    except OSError:
        return ""
    try:
        return f"{boot}/{_TIME_NAMESPACE.readlink()}"
    except OSError:
        return boot  # a kernel without time namespaces
